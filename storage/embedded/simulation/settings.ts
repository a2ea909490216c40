/** What a life is configured with, and how much goes wrong in it, by seed. Sizes are small, so that little work makes files turn over. */
import { type FaultRates, NO_FAULTS, type Slowness } from './machine.ts'
import type { Random } from './random.ts'

const HOUR = 3600

export type Action = 'write' | 'delete' | 'drop' | 'restore' | 'flush' | 'tidy' | 'transaction' | 'read' | 'archive' | 'backup' | 'fill' | 'later'

/** What a life is mostly about. What needs several rare things close together would else hardly ever happen. */
export interface Profile {
  name: string
  config: (random: Random) => Record<string, unknown>
  /** undefined: as `ratesOf`. */
  rates?: (random: Random) => Partial<FaultRates>
  slow?: (random: Random) => Slowness
  /** How much likelier each action is than usual. */
  weights: Partial<Record<Action, number>>
  /** How many fields have a name of their own. */
  newFields: number
  /** How many points begin a series; undefined: each client has its own. */
  newSeries?: number
  /** How many batches are held by their decoder for long, and how many are given up. */
  held: number
  recycled: number
  /** How many drops are final. */
  final: number
  /** How many lives that do not end by a close end by a power cut. */
  power: number
}

const PLAIN: Profile = { name: 'plain', config: () => ({}), weights: {}, newFields: 0.01, held: 0.3, recycled: 0.05, final: 0.4, power: 0.5 }

const PROFILES: readonly Profile[] = [
  {
    ...PLAIN,
    name: 'commits find no space while others queue',
    config: (random) => ({ wal_max_file_size: random.pick([400, 2000]), memtable_flush_threshold: random.pick([500, 4000]) }),
    rates: (random) => ({ full: random.pick([0.2, 0.5]) }),
    slow: (random) => ({ call: 'commit', ms: random.pick([1, 50, 500]) }),
    weights: { delete: 2, drop: 4, flush: 4, tidy: 6, archive: 2 },
    final: 0.8,
    power: 0.3,
  },
  {
    ...PLAIN,
    name: 'the log fails while commits run',
    config: (random) => ({ memtable_flush_threshold: random.pick([500, 4000]) }),
    rates: (random) => ({ log: random.pick([0.05, 0.2, 0.4]) }),
    slow: (random) => ({ call: 'write', ms: random.pick([5, 50, 500]) }),
    weights: { write: 2, flush: 4, tidy: 2, drop: 0.5 },
    newFields: 0.4,
    newSeries: 0.5,
  },
  {
    ...PLAIN,
    name: 'much is written and little synced',
    config: (random) => ({
      wal_fsync_policy: 'periodic_200',
      wal_max_file_size: 1 << 20,
      wal_max_unflushed: 100,
      memtable_flush_threshold: random.pick([4000, 1 << 20]),
    }),
    rates: () => ({}),
    slow: (random) => ({ call: 'fdatasync', ms: random.pick([1, 100, 1000]) }),
    weights: { write: 5, flush: 0.5, tidy: 0.5 },
    power: 0.9,
  },
  {
    ...PLAIN,
    name: 'batches stay with their decoders for long, and are given up',
    config: (random) => ({ memtable_flush_threshold: random.pick([500, 4000]), max_series_cardinality: random.pick([8, 1_000_000, 1_000_000]) }),
    weights: { flush: 3, tidy: 2, delete: 2 },
    newSeries: 0.4,
    held: 0.8,
    recycled: 0.4,
  },
]

export function profileOf(random: Random): Profile {
  return random.chance(0.4) ? PLAIN : random.pick(PROFILES)
}

export function configOf(random: Random): Record<string, unknown> {
  const shard = random.pick([60, HOUR, HOUR, 86_400])
  const retention = random.chance(0.25) ? shard * random.pick([1, 2, 24, 500]) : 0
  return {
    ...(random.chance(0.1) ? { preset: 'small' } : {}),
    wal_fsync_policy: random.pick(['per_batch', 'per_batch', 'per_write', 'periodic_10', 'periodic_200']),
    wal_max_file_size: random.pick([400, 2000, 20_000, 1 << 20]),
    wal_max_unflushed: random.pick([1, 2, 4, 100]),
    memtable_flush_threshold: random.pick([500, 4000, 1 << 20]),
    max_memtable_memory: 256 << 20,
    compaction_fan_in: random.pick([2, 2, 3, 8]),
    compaction_max_segment_rows: random.pick([20, 1000, 1_000_000]),
    compaction_max_backlog: 64,
    maintenance_interval_secs: random.pick([1, 5, 30]),
    deleted_rows_rewrite_secs: random.pick([0, 1, 600]),
    shard_duration_secs: shard,
    ooo_shard_tolerance: random.pick([0, 2, 100, 1_000_000]),
    future_write_tolerance_secs: HOUR,
    max_series_cardinality: random.chance(0.1) ? 8 : 1_000_000,
    retention_secs: retention,
    retention: retention > 0 || random.chance(0.1) ? ownRetention(random, shard) : {},
    ...(random.chance(0.6) ? { soft_delete_ttl_secs: random.pick([1, 600, 86_400 * 365]) } : {}),
    segment_verification: random.pick(['first_use', 'background', 'off']),
    query_threads: random.between(1, 2),
    engine_niceness: 0,
    maintenance_max_deaths: random.pick([1, 3, 1000]),
    cdc_capacity: random.pick([16, 100, 65_536]),
    cdc_log_size: random.pick([0, 2000, 20_000, 1 << 20]),
    cdc_log_secs: random.pick([0, 5, 600, 86_400]),
  }
}

function ownRetention(random: Random, shard: number): Record<string, number> {
  const own: Record<string, number> = {}
  for (const name of ['m0', 'g0', 'g1']) if (random.chance(0.4)) own[name] = random.pick([0, shard, shard * 24])
  return own
}

/** Many kinds now and then, or one kind often. */
export function ratesOf(random: Random, profile: Profile): FaultRates {
  if (profile.rates !== undefined && random.chance(0.8)) return { ...NO_FAULTS, ...profile.rates(random) }
  const rates: FaultRates = { ...NO_FAULTS }
  const kinds = Object.keys(rates) as (keyof FaultRates)[]
  if (random.chance(0.4)) rates[random.pick(kinds)] = random.pick([0.05, 0.2, 0.5])
  else for (const kind of kinds) if (random.chance(0.4)) rates[kind] = random.pick([0.002, 0.01, 0.05])
  return rates
}
