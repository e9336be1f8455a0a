"""Many runs: datasets, results and reports, a catalogue over them, and a page of trends.

DIR/runs/RUN_ID/dataset/           the run's dataset
DIR/runs/RUN_ID/results/*.parquet  its results, with one schema whatever wrote the source
DIR/runs/RUN_ID/report.html        its report
DIR/runs/RUN_ID/status.json        what it is, whether it worked, headline figures
DIR/unlisted/RUN_ID/               runs of earlier batches that this one does not name
DIR/catalog.sqlite                 rows per run, GPU, pattern, finding; opens in Datasette
DIR/index.html                     the page of trends
DIR/batch.json                     the inputs, from which an interrupted batch is resumed
"""
