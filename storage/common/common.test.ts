import { SvcError } from 'svcdb/lib/errors'
import t from 'tap'
import { Random } from '../conformance/random.ts'
import { formatDecimal, rescale } from './decimal.ts'
import { limitsOf } from './limits.ts'
import { canonicalTags, checkFieldName, checkMeasurementName, checkTagKey } from './names.ts'
import { SortedKeys } from './sorted-keys.ts'
import { formatTime, highHalf, INT64_MAX, INT64_MIN, lowHalf, toNs } from './time.ts'
import { ADMITTED, SENTINEL, TOO_NEW, TOO_OLD, verdict, Window } from './window.ts'

const limits = limitsOf({})
const HOUR = 3_600_000_000_000n
const NOW_MS = Date.UTC(2024, 0, 1, 12)
/** High half of a time far in the future. */
const FAR_HIGH = 0x7ffffff0
const NOW = BigInt(NOW_MS) * 1_000_000n

function refusal(body: () => unknown): SvcError {
  try {
    body()
  } catch (error) {
    if (error instanceof SvcError) return error
    throw error
  }
  throw new Error('nothing was refused')
}

t.test('names', async (t) => {
  for (const name of ['cpu', 'a'.repeat(256), 'ä'.repeat(128), 'with space', '温度']) checkMeasurementName(name, limits)
  for (const name of ['', 'a'.repeat(257), 'ä'.repeat(129), 'a\0b', 'a\x01', '\ud800']) {
    t.equal(refusal(() => checkMeasurementName(name, limits)).code, 'INVALID_POINT')
  }
  for (const name of ['_time', '_series', '_measurement']) {
    t.match(refusal(() => checkFieldName(name, limits)).message, /^cannot use field ".*": the name is reserved/)
    t.match(refusal(() => checkTagKey(name, limits)).message, /^cannot use tag key/)
    checkMeasurementName(name, limits)
  }
  t.match(refusal(() => checkMeasurementName('a\0b', limits)).message, 'cannot use measurement "a\\x00b"', 'control characters are never printed')
})

t.test('tags are sorted, empty values dropped, limits kept', async (t) => {
  t.same(canonicalTags(['b', '2', 'a', '1', 'c', ''], limits), ['a', '1', 'b', '2'])
  t.match(refusal(() => canonicalTags(['a', '1', 'a', '2'], limits)).message, 'twice')
  t.same(canonicalTags(['a', '1', 'a', ''], limits), ['a', '1'])
  const many = Array.from({ length: 65 }, (_, i) => [`k${i}`, 'v']).flat()
  t.match(refusal(() => canonicalTags(many, limits)).message, /65 tags, max_tags_per_series is 64/)
  t.equal(canonicalTags(many.slice(2), limits).length, 128)
  t.equal(refusal(() => canonicalTags(['a', 'x'.repeat(4097)], limits)).code, 'INVALID_POINT')
  t.equal(refusal(() => canonicalTags(['a', 'x\x01'], limits)).code, 'INVALID_POINT')
})

t.test('times survive the way through two halves', async (t) => {
  for (const ns of [0n, 1n, -1n, NOW, INT64_MAX, INT64_MIN, 0xffffffffn, 0x100000000n, -0x100000000n]) t.equal(toNs(lowHalf(ns), highHalf(ns)), ns)
  t.equal(formatTime(NOW), '2024-01-01T12:00:00Z')
  t.equal(formatTime(NOW + 1n), '2024-01-01T12:00:00.000000001Z')
  t.equal(formatTime(-1n), '1969-12-31T23:59:59.999999999Z')
})

t.test('the present is not the future, however little may be', async (t) => {
  const window = new Window({ ...limits, futureWriteToleranceSecs: 0 })
  const judge = (time: bigint) => verdict(window.open(NOW_MS, false), lowHalf(time), highHalf(time))
  t.equal(judge(NOW + 999_999n), ADMITTED, 'points without a time have one of the millisecond that the clock tells')
  t.equal(judge(NOW + 1_000_000n), TOO_NEW)
})

t.test('window', async (t) => {
  const judge = (w: Window, time: bigint, backfill = false) => verdict(w.open(NOW_MS, backfill), lowHalf(time), highHalf(time))
  t.same([limitsOf({}).oooShardTolerance, limitsOf({}).shardDurationSecs], [48, 3600], 'what was not sent for two days comes in without ceremony')
  const limits = limitsOf({ ooo_shard_tolerance: 2 })
  const window = new Window(limits)
  t.equal(judge(window, 0n), ADMITTED, 'an empty namespace admits any history')
  t.equal(judge(window, NOW + HOUR), ADMITTED)
  t.equal(judge(window, NOW + HOUR + 1n), TOO_NEW)
  for (const sentinel of [INT64_MAX, INT64_MIN, -INT64_MAX]) t.equal(judge(window, sentinel, true), SENTINEL)
  t.equal(judge(window, INT64_MIN + 2n), ADMITTED)

  const newest = NOW + HOUR / 2n
  window.advance(lowHalf(newest), highHalf(newest))
  window.advance(0, 0)
  t.equal(window.newest, newest, 'an older row does not move the window back')
  const start = NOW - 2n * HOUR
  t.equal(window.start(NOW_MS), start, 'whole shards, two before that of the server clock, which the newest write is ahead of')
  t.equal(window.start(NOW_MS + 10 * 3_600_000), start, 'or of the newest write: a quiet database goes on where it was')
  t.equal(window.start(NOW_MS - 3_600_000), start - HOUR, 'a clock that is set back refuses no more')
  t.equal(judge(window, start), ADMITTED)
  t.equal(judge(window, start - 1n), TOO_OLD)
  t.equal(judge(window, start - 1n, true), ADMITTED, 'backfill')
  t.equal(judge(window, NOW + HOUR + 1n, true), TOO_NEW, 'the future bound applies to backfill')

  const ahead = new Window(limits, NOW + 87_600n * HOUR)
  t.equal(judge(ahead, start), ADMITTED, 'a clock that ran ahead and is right again refuses nothing of today')
  t.equal(judge(ahead, start - 1n), TOO_OLD)

  const negative = new Window(limits, -1n)
  t.equal(negative.start(NOW_MS), -3n * HOUR, 'shards before the epoch count downwards')
  t.equal(new Window(limits, INT64_MIN + 2n).start(NOW_MS), INT64_MIN)

  const bounds = window.open(NOW_MS, false)
  const old = window.refusal(TOO_OLD, bounds, lowHalf(start - 1n), highHalf(start - 1n))
  t.equal(old.code, 'PARTIAL_WRITE')
  for (const part of ['2024-01-01T09:59:59.999999999Z', String(start - 1n), String(start), '2024-01-01T10:00:00Z', '2 shards of 3600 s', 'backfill=true']) {
    t.ok(old.message.includes(part), part)
  }
  t.notMatch(old.message, /precision/)
  for (const time of [1_700_000_000n, 1_700_000_000_000n, 1_700_000_000_000_000n])
    t.match(window.refusal(TOO_OLD, bounds, lowHalf(time), highHalf(time)).message, /; check its precision, .*, or send it with backfill=true$/)
  t.equal(window.refusal(TOO_NEW, bounds, 0, FAR_HIGH).code, 'FUTURE_TIMESTAMP')
  t.equal(window.refusal(SENTINEL, bounds, -1, 0x7fffffff).code, 'INVALID_POINT')
})
t.test('decimals are written digit by digit', async (t) => {
  const cases: [string, bigint, number][] = [
    ['0', 0n, 0],
    ['0.00', 0n, 2],
    ['1.50', 150n, 2],
    ['0.5', 5n, 1],
    ['-12', -12n, 0],
    ['-0.05', -5n, 2],
    ['9'.repeat(38), BigInt('9'.repeat(38)), 0],
    [`-0.${'9'.repeat(38)}`, -BigInt('9'.repeat(38)), 38],
  ]
  for (const [text, unscaled, scale] of cases) t.equal(formatDecimal(unscaled, scale), text)
})

t.test('rescaling never loses a digit', async (t) => {
  t.equal(rescale(15n, 1, 4, 'm', 'f'), 15000n)
  t.match(refusal(() => rescale(150n, 2, 1, 'm', 'f')).message, /"1\.50".* it has 2 fractional digits, the field's scale is 1/)
  t.match(refusal(() => rescale(BigInt('9'.repeat(38)), 0, 1, 'm', 'f')).message, /more than 38 digits/)
  t.equal(rescale(-(10n ** 37n) + 1n, 0, 1, 'm', 'f'), -(10n ** 38n) + 10n)
})

t.test('sorted keys: pages of them, and what follows one of them, as of a sorted array', async (t) => {
  const random = new Random(7)
  const keys = new SortedKeys()
  const plain = new Set<string>()
  for (let i = 0; i < 5000; i++) {
    const key = `k${random.below(4000)}`
    if (random.chance(0.8)) {
      keys.add(key)
      plain.add(key)
    } else {
      keys.delete(key)
      plain.delete(key)
    }
  }
  const sorted = [...plain].sort()
  t.ok(sorted.length > 1500)
  t.equal(keys.size, sorted.length)
  t.same(keys.page(0, Number.POSITIVE_INFINITY), sorted)
  for (let i = 0; i < 50; i++) {
    const [offset, limit, from] = [random.below(sorted.length + 100), random.below(1200), `k${random.below(4000)}`]
    t.same(keys.page(offset, limit), sorted.slice(offset, offset + limit), `${limit} behind ${offset}`)
    t.same(
      [...keys.from(from)],
      sorted.filter((key) => key >= from),
      from,
    )
  }
})
