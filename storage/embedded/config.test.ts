import t from 'tap'
import { fsyncPolicy, resolveConfig } from './config.ts'

t.test('preset "small" changes what the file leaves at its default', async (t) => {
  t.match(resolveConfig({ preset: 'small' }), {
    memtable_flush_threshold: 8 << 20,
    max_memtable_memory: 24 << 20,
    wal_fsync_policy: 'periodic_5000',
    query_threads: 1,
  })
  t.match(resolveConfig({ preset: 'small', wal_fsync_policy: 'per_write' }), { wal_fsync_policy: 'per_write', wal_max_file_size: 8 << 20 })
  t.match(resolveConfig({}), { memtable_flush_threshold: 64 << 20, wal_fsync_policy: 'per_batch' })
})

t.test('thresholds that contradict each other are refused, naming both', async (t) => {
  t.throws(() => resolveConfig({ max_memtable_memory: 1 << 20, memtable_flush_threshold: 1 << 21 }), {
    code: 'CONFIG_ERROR',
    message: /max_memtable_memory.*memtable_flush_threshold/,
  })
})

t.test('fsync policies', async (t) => {
  t.same(fsyncPolicy('per_batch'), { kind: 'per_batch' })
  t.same(fsyncPolicy('periodic_250'), { kind: 'periodic', ms: 250 })
})
