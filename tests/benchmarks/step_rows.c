/* The yardstick of the ingest benchmark: step one SELECT on one thread, read every column.
 * usage: step_rows FILE SELECT...   prints the number of rows and a checksum of each SELECT */
#include <sqlite3.h>
#include <stdio.h>

int main(int argc, char **argv) {
    sqlite3 *db;
    if (argc < 3 || sqlite3_open_v2(argv[1], &db, SQLITE_OPEN_READONLY, NULL)) return 2;
    for (int i = 2; i < argc; i++) {
        sqlite3_stmt *statement;
        long long rows = 0, sum = 0;
        if (sqlite3_prepare_v2(db, argv[i], -1, &statement, NULL)) {
            fprintf(stderr, "%s\n", sqlite3_errmsg(db));
            return 2;
        }
        int columns = sqlite3_column_count(statement);
        while (sqlite3_step(statement) == SQLITE_ROW) {
            for (int c = 0; c < columns; c++) {
                switch (sqlite3_column_type(statement, c)) {
                    case SQLITE_INTEGER: sum += sqlite3_column_int64(statement, c); break;
                    case SQLITE_NULL: break;
                    default: sqlite3_column_text(statement, c);
                             sum += sqlite3_column_bytes(statement, c);
                }
            }
            rows++;
        }
        sqlite3_finalize(statement);
        printf("%lld %lld\n", rows, sum);
    }
    return sqlite3_close(db);
}
