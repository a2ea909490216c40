/** What keys are given of the memory budget, and what is refused. */
import t from 'tap'
import { divide, LEAST_MEMORY, machineBudget, USUAL } from './budget.ts'
import { configSchema, presets, resolveConfig } from './config.ts'

const MIB = 1 << 20
const GIB = 1 << 30
const THREADS = { query_threads: 2 }

t.test('the budget is a quarter of the machine, or of the control group the process is in', async (t) => {
  t.equal(machineBudget(16 * GIB, 0), 4 * GIB)
  t.equal(machineBudget(16 * GIB, 2 ** 63), 4 * GIB, 'no limit is a large one')
  t.equal(machineBudget(16 * GIB, 2 * GIB), 512 * MIB)
  t.equal(machineBudget(512 * MIB, 0), LEAST_MEMORY)
})

t.test('a large machine is no reason to take more than usual, a small one to take less', async (t) => {
  t.same(divide(THREADS, 64 * GIB), USUAL)
  const small = divide(THREADS, 512 * MIB)
  t.match(small, { max_memtable_memory: 128 * MIB, memtable_flush_threshold: 32 * MIB, sample_cache_size: 128 * MIB, merge_memory_limit: 64 * MIB })
  t.equal(small.per_query_memory_limit, 64 * MIB)
})

t.test('with a budget that is written, the cache and queries grow and the rest does not', async (t) => {
  const config = resolveConfig({ ...THREADS, max_memory: 8 * GIB })
  t.match(config, { sample_cache_size: 2 * GIB, per_query_memory_limit: GIB })
  t.match(config, { max_memtable_memory: USUAL.max_memtable_memory, memtable_flush_threshold: USUAL.memtable_flush_threshold })
  t.equal(config.merge_memory_limit, USUAL.merge_memory_limit)
})

t.test('the parts of any budget are no more than it', async (t) => {
  for (let max_memory = LEAST_MEMORY; max_memory < 64 * GIB; max_memory = Math.ceil(max_memory * 1.3)) {
    const config = resolveConfig({ query_threads: 1, max_memory })
    t.ok(config.memtable_flush_threshold <= config.max_memtable_memory)
  }
})

t.test('whatever is written, its parts are values that their keys may have: nobody is told of a key that is not written', async (t) => {
  const { properties } = configSchema as unknown as { properties: Record<string, { minimum: number; maximum: number }> }
  const { max_memory, max_memtable_memory } = properties
  for (const given of [
    ...[max_memory.minimum, 1, LEAST_MEMORY, 2 ** 43, max_memory.maximum, -5, 1.5, '1GB', true, Number.NaN, {}].map((value) => ({ max_memory: value })),
    ...[max_memtable_memory.minimum, 3 * MIB, max_memtable_memory.maximum, 0, -1, '64MB'].map((value) => ({ max_memtable_memory: value })),
    ...['all', -1, 0.5, 1_000_000].map((value) => ({ query_threads: value })),
  ]) {
    for (const [key, value] of Object.entries(divide(given, 64 * GIB))) {
      const { minimum, maximum } = properties[key]
      t.ok(Number.isInteger(value) && value >= minimum && value <= maximum, `${JSON.stringify(given)}: ${key} = ${value}`)
    }
  }
  t.equal(resolveConfig({ max_memtable_memory: MIB }).memtable_flush_threshold, 256 << 10)
})

t.test('a key that is written overrides its part, and is checked against a budget that is written', async (t) => {
  t.equal(resolveConfig({ ...THREADS, max_memory: GIB, sample_cache_size: 16 * MIB }).sample_cache_size, 16 * MIB)
  t.equal(resolveConfig({ ...THREADS, max_memory: GIB, max_memtable_memory: 64 * MIB }).memtable_flush_threshold, 16 * MIB)
  t.throws(() => resolveConfig({ ...THREADS, max_memory: GIB, sample_cache_size: GIB }), {
    code: 'CONFIG_ERROR',
    message: /max_memory = 1073741824: its parts are \d+ \(.*sample_cache_size = 1073741824.*lower or leave out one of them, or have fewer query_threads/,
  })
  t.throws(() => resolveConfig({ max_memory: 128 * MIB }), { code: 'CONFIG_ERROR', message: /268435456 is the least/ })
  t.ok(resolveConfig({ sample_cache_size: 64 * GIB }), 'without one the key stands')
})

t.test('what the kernel has filled in is what the engine makes of it', async (t) => {
  for (const given of [{}, { preset: 'small' }, { max_memory: 4 * GIB }, { max_memory: 300 * MIB, query_threads: 1 }]) {
    const once = resolveConfig(given)
    t.same(resolveConfig(once), once)
    t.same(resolveConfig({ ...given, ...presets(given) }), once)
  }
})
