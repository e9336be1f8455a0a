-- One row per CUDA runtime or driver call on the host. Order: as stored. Left out: nothing.
-- requires: CUPTI_ACTIVITY_KIND_RUNTIME(start, end, globalTid, correlationId, nameId)
-- optional: CUPTI_ACTIVITY_KIND_RUNTIME(returnValue)
-- unreadable: error
-- without it: launches, causes of idle gaps and host-blocking times are unknown
-- column: start_ns INT64 call, ns on the trace clock
-- column: end_ns INT64 return, ns on the trace clock
-- column: global_tid INT64 calling thread with its process, VM and hardware bits
-- column: correlation_id INT64 joins the device work of this call within the same process
-- column: name STRING_ID function with the exporter's version suffix, such as cudaLaunchKernel_v7000
-- column: return_value INT32 CUDA result, 0 for success; NULL when unknown
SELECT
    "start" AS start_ns,
    "end" AS end_ns,
    globalTid AS global_tid,
    correlationId AS correlation_id,
    nameId AS name,
    returnValue AS return_value
FROM CUPTI_ACTIVITY_KIND_RUNTIME
