-- One row per physical GPU of the machine, CUDA device or not. Order: as stored.
-- requires: TARGET_INFO_GPU(name)
-- optional: TARGET_INFO_GPU(id, deviceId, cuDevice, uuid, busLocation, totalMemory, memoryBandwidth, smCount, computeMajor, computeMinor)
-- unreadable: skip
-- without it: GPUs have numbers and no names
-- column: gpu_id INT64 id of the physical GPU; NULL in the oldest exports
-- column: table_device_id INT64 device number in the oldest exports; NULL since
-- column: cu_device INT64 CUDA ordinal seen with every GPU visible; NULL for GPUs without CUDA
-- column: name TEXT product name
-- column: uuid TEXT unique id; empty when unknown
-- column: bus_location TEXT PCI address; empty when unknown
-- column: memory_bytes INT64 device memory, bytes; NULL when unknown
-- column: memory_bandwidth_bytes_per_s INT64 peak device memory bandwidth; NULL when unknown
-- column: sm_count INT64 streaming multiprocessors; NULL when unknown
-- column: compute_major INT64 compute capability, major; NULL when unknown
-- column: compute_minor INT64 compute capability, minor; NULL when unknown
SELECT
    id AS gpu_id,
    deviceId AS table_device_id,
    cuDevice AS cu_device,
    CAST(COALESCE(name, '') AS BLOB) AS name,
    CAST(COALESCE(uuid, '') AS BLOB) AS uuid,
    CAST(COALESCE(busLocation, '') AS BLOB) AS bus_location,
    totalMemory AS memory_bytes,
    memoryBandwidth AS memory_bandwidth_bytes_per_s,
    smCount AS sm_count,
    computeMajor AS compute_major,
    computeMinor AS compute_minor
FROM TARGET_INFO_GPU
