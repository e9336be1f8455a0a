"""Many runs: datasets, results and reports, a catalogue over them, and a page of trends.

    from nsys_deepprof.batch.engines import in_processes
    from nsys_deepprof.batch.inputs import find_inputs
    from nsys_deepprof.batch.plan import BatchInput
    from nsys_deepprof.batch.run import run_batch

    inputs = [BatchInput(path, {"team": "vision"}) for path in find_inputs(["nightly/"])]
    result = run_batch(inputs, Path("archive"), engine=in_processes(4))

An engine maps paths to outcomes: `engines.in_processes`, `dask_engine.on_dask`, or your own.

DIR/runs/RUN_ID/dataset/           the run's dataset
DIR/runs/RUN_ID/results/*.parquet  its results, with one schema whatever wrote the source
DIR/runs/RUN_ID/report.html        its report
DIR/runs/RUN_ID/status.json        what it is, whether it worked, headline figures
DIR/unlisted/RUN_ID/               runs of earlier batches that this one does not name
DIR/catalog.sqlite                 rows per run, GPU, pattern, finding; opens in Datasette
DIR/index.html                     the page of trends
DIR/batch.json                     the inputs, from which an interrupted batch is resumed
"""
