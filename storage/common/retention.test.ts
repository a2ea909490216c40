import { SvcError } from 'svcdb/lib/errors'
import { loadEngine } from 'svcdb/testkit'
import t from 'tap'
import { limitsOf } from './limits.ts'
import {
  admissionCutoffs,
  deadlinePassed,
  dropDeadline,
  measurementCutoff,
  nothingToRestore,
  type RetentionSettings,
  retentionClock,
  retentionCutoff,
  retentionSettings,
  unknownMeasurement,
} from './retention.ts'
import { INT64_MIN } from './time.ts'

const limits = limitsOf({})
const NS = 1_000_000_000n
const HOUR = 3600n * NS
const NOW_MS = Date.UTC(2024, 0, 1, 12)
const NOW = BigInt(NOW_MS) * 1_000_000n
const of = (config: Record<string, unknown>): RetentionSettings => retentionSettings(config, limits)

t.test('the configuration, and periods that are too short', async (t) => {
  t.same(of({}), { retentionSecs: 0, retention: new Map(), shortestSecs: 0, softDeleteTtlSecs: undefined })
  t.same(of({ retention_secs: 3600, retention: { a: 0, b: 7200 }, soft_delete_ttl_secs: 1 }), {
    retentionSecs: 3600,
    retention: new Map([
      ['a', 0],
      ['b', 7200],
    ]),
    shortestSecs: 3600,
    softDeleteTtlSecs: 1,
  })
  const short = (config: Record<string, unknown>, message: RegExp) => t.throws(() => of(config), { code: 'CONFIG_ERROR', message })
  short({ retention_secs: 3599 }, /retention_secs = 3599: it is shorter than shard_duration_secs = 3600/)
  short({ retention: { 'a b': 1 } }, /retention\."a b" = 1: it is shorter/)
})

t.test('every engine says so before a start', async (t) => {
  for (const name of ['clickhouse', 'embedded', 'memory']) {
    const { check } = await loadEngine(name, '.')
    t.throws(() => check?.({ retention_secs: 3599 }), { code: 'CONFIG_ERROR', message: /retention_secs = 3599: it is shorter/ }, name)
  }
})

t.test('the clock is the earlier of wall clock and newest time of any namespace', async (t) => {
  t.equal(retentionClock(NOW_MS, []), INT64_MIN)
  t.equal(retentionClock(NOW_MS, [undefined]), INT64_MIN)
  t.equal(retentionClock(NOW_MS, [NOW - 5n, undefined, NOW - 2n]), NOW - 2n)
  t.equal(retentionClock(NOW_MS, [NOW - 5n, NOW + 1n]), NOW)
})

t.test('deadlines of drops', async (t) => {
  t.equal(dropDeadline(NOW_MS, [NOW - HOUR], 60), NOW + 60n * NS)
  t.equal(dropDeadline(NOW_MS, [NOW + HOUR], 60), NOW + HOUR + 60n * NS)
  t.equal(dropDeadline(NOW_MS, [], 60), NOW + 60n * NS)
  const final = dropDeadline(NOW_MS, [NOW], undefined)
  t.ok(deadlinePassed(final, retentionClock(NOW_MS, [])), 'a final drop ends at once, even where nothing is held')
  t.notOk(deadlinePassed(NOW, NOW - 1n))
  t.ok(deadlinePassed(NOW, NOW))
})

t.test('cutoffs begin with a shard, before 1970 and at the ends of time too', async (t) => {
  t.equal(retentionCutoff(NOW + HOUR - 1n, 7200, limits), NOW - 2n * HOUR)
  t.equal(retentionCutoff(NOW, 7200, limits), NOW - 2n * HOUR)
  t.equal(retentionCutoff(-1n, 3600, limits), -2n * HOUR)
  t.equal(retentionCutoff(NOW, 0, limits), INT64_MIN)
  t.equal(retentionCutoff(INT64_MIN, 3600, limits), INT64_MIN)
})

t.test('a measurement has its own period, and what holds keep', async (t) => {
  const settings = of({ retention_secs: 7200, retention: { audit: 0, brief: 3600 } })
  const cutoff = (name: string, ...holds: (bigint | undefined)[]) =>
    measurementCutoff(
      settings,
      limits,
      NOW,
      'ns',
      name,
      holds.map((time) => (namespace, measurement) => (namespace === 'ns' && measurement === name ? time : undefined)),
    )
  t.equal(cutoff('cpu'), NOW - 2n * HOUR)
  t.equal(cutoff('brief'), NOW - HOUR)
  t.equal(cutoff('audit', NOW), INT64_MIN)
  t.equal(cutoff('cpu', undefined, NOW - 5n * HOUR + 1n, NOW - 3n * HOUR), NOW - 5n * HOUR, 'the oldest hold counts, by whole shards')
  t.equal(cutoff('cpu', NOW), NOW - 2n * HOUR, 'a hold never shortens')
})

t.test('admission refuses what the measurement itself would not keep', async (t) => {
  const cutoffs = (config: Record<string, unknown>) => {
    const { latest, general, own } = admissionCutoffs(of(config), limits, NOW)
    return [latest, general.cutoff, own('brief')?.cutoff]
  }
  t.same(cutoffs({}), [INT64_MIN, INT64_MIN, undefined])
  t.same(cutoffs({ retention_secs: 7200 }), [NOW - 2n * HOUR, NOW - 2n * HOUR, undefined])
  t.same(cutoffs({ retention_secs: 7200, retention: { brief: 3600 } }), [NOW - HOUR, NOW - 2n * HOUR, NOW - HOUR])
  t.same(cutoffs({ retention_secs: 7200, retention: { brief: 36_000 } }), [NOW - 2n * HOUR, NOW - 2n * HOUR, NOW - 10n * HOUR])
  t.same(cutoffs({ retention_secs: 7200, retention: { brief: 0 } }), [NOW - 2n * HOUR, NOW - 2n * HOUR, INT64_MIN])
  t.same(cutoffs({ retention: { brief: 3600 } }), [NOW - HOUR, INT64_MIN, NOW - HOUR])
  t.match(admissionCutoffs(of({ retention: { 'a "b': 3600 } }), limits, NOW).own('a "b'), { key: 'retention."a \\"b"', secs: 3600 })
})

t.test('texts name what was asked for, shortened and printable', async (t) => {
  const restore = (ttl: number | undefined, ended: boolean) => nothingToRestore('m', { softDeleteTtlSecs: ttl }, ended).message
  t.match(restore(undefined, true), /^cannot restore measurement "m": drops are final because .*soft_delete_ttl_secs is unset/)
  t.match(restore(60, true), /^cannot restore measurement "m": its grace period has passed/)
  t.match(restore(60, false), /^cannot restore measurement "m": it was never dropped/)
  const error = unknownMeasurement('delete', `a\n${'x'.repeat(1000)}`)
  t.ok(error instanceof SvcError)
  t.match(error.message, /^cannot delete from measurement "a\\x0ax+\.\.\.": it does not exist/)
  t.ok(error.message.length < 200)
})
