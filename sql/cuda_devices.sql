-- One row per GPU that a process can use: its CUDA ordinal there and the physical GPU behind it. Order: as stored.
-- requires: TARGET_INFO_CUDA_DEVICE(gpuId, cudaId, pid)
-- optional: TARGET_INFO_CUDA_DEVICE(uuid)
-- unreadable: skip
-- without it: CUDA ordinals are taken for GPUs where one process runs, and kept apart by process elsewhere
-- column: gpu_id INT64 id of the physical GPU
-- column: device_id INT64 CUDA ordinal in that process
-- column: pid INT64 process number
-- column: uuid TEXT unique id; empty when unknown
SELECT
    gpuId AS gpu_id,
    cudaId AS device_id,
    pid AS pid,
    CAST(COALESCE(uuid, '') AS BLOB) AS uuid
FROM TARGET_INFO_CUDA_DEVICE
