-- One row per CUDA device, in exports of about 2020. Order: as stored.
-- requires: TARGET_INFO_CUDA_GPU(deviceId, name)
-- optional: TARGET_INFO_CUDA_GPU(globalMemorySize, globalMemoryBandwidth, numMultiprocessors, pciBusId)
-- unreadable: skip
-- without it: nothing is lost in newer exports
-- column: device_id INT64 CUDA ordinal
-- column: name TEXT product name
-- column: bus_location TEXT PCI address; empty when unknown
-- column: memory_bytes INT64 device memory, bytes; NULL when unknown
-- column: memory_bandwidth_bytes_per_s INT64 peak device memory bandwidth; NULL when unknown
-- column: sm_count INT64 streaming multiprocessors; NULL when unknown
SELECT
    deviceId AS device_id,
    CAST(COALESCE(name, '') AS BLOB) AS name,
    CAST(COALESCE(pciBusId, '') AS BLOB) AS bus_location,
    globalMemorySize AS memory_bytes,
    globalMemoryBandwidth AS memory_bandwidth_bytes_per_s,
    numMultiprocessors AS sm_count
FROM TARGET_INFO_CUDA_GPU
