import { MetricsRegistry } from 'svcdb/testkit'
import t from 'tap'
import { explain, fsyncPolicy, resolveConfig } from './config.ts'
import { durabilityInfo } from './gauges.ts'

t.test('preset "small" gives values to what is not written, and to nothing else', async (t) => {
  t.match(resolveConfig({ preset: 'small' }), {
    memtable_flush_threshold: 8 << 20,
    max_memtable_memory: 24 << 20,
    wal_fsync_policy: 'periodic_5000',
    query_threads: 1,
  })
  t.match(resolveConfig({ preset: 'small', wal_fsync_policy: 'per_write' }), { wal_fsync_policy: 'per_write', wal_max_file_size: 8 << 20 })
  t.match(resolveConfig({ preset: 'small', wal_fsync_policy: 'per_batch' }), { wal_fsync_policy: 'per_batch', row_group_rows: 16_384 }, 'a default written out')
  t.match(resolveConfig({}), { memtable_flush_threshold: 64 << 20, wal_fsync_policy: 'per_batch' })
})

t.test('thresholds that contradict each other are refused, naming both', async (t) => {
  t.throws(() => resolveConfig({ max_memtable_memory: 1 << 20, memtable_flush_threshold: 1 << 21 }), {
    code: 'CONFIG_ERROR',
    message: /max_memtable_memory.*memtable_flush_threshold/,
  })
})

t.test('what the policy means is said in words', async (t) => {
  t.same(explain({ wal_fsync_policy: 'per_batch' }), ['durability: a write is on disk before its answer (per_batch)'])
  t.match(explain({ wal_fsync_policy: 'periodic_5000' })[0], /answered before it is on disk: .* lose the last 5000 ms/)
})

t.test('a metric says what the policy is', async (t) => {
  for (const [policy, line] of Object.entries({
    per_batch: 'svc_storage_durability_info{policy="per_batch",sync_interval_ms="0"} 1',
    periodic_5000: 'svc_storage_durability_info{policy="periodic",sync_interval_ms="5000"} 1',
  })) {
    const metrics = new MetricsRegistry()
    durabilityInfo(metrics.child('storage'), fsyncPolicy(policy))
    t.match(await metrics.text(), line)
  }
})

t.test('fsync policies', async (t) => {
  t.same(fsyncPolicy('per_batch'), { kind: 'per_batch' })
  t.same(fsyncPolicy('periodic_250'), { kind: 'periodic', ms: 250 })
})
