/** From which time on raw data and buckets are held. */
import t from 'tap'
import { FIRST_TIME } from './boundaries.ts'
import { definitionOf } from './definition.ts'
import type { Follower } from './follower.ts'
import type { Registry } from './registry.ts'
import { retentionHold } from './retention.ts'
import { Rollup } from './rollup.ts'

const S = 1_000_000_000n
const NOW = 100_000n

/** A rollup of `a` into `b` that keeps its buckets for 1000 seconds, and tiers of `b` that need all from these seconds on. */
function hold({ until, tiers = [], maxHold = 0, caughtUp = true }: { until: bigint; tiers?: bigint[]; maxHold?: number; caughtUp?: boolean }) {
  const rollup = (source: string, target: string, end: bigint): Rollup => {
    const body = { name: target, source_measurement: source, target_measurement: target, every: '10s', aggregations: ['avg'], retention_seconds: 1000 }
    const made = new Rollup(definitionOf(body, '', 0n), 64)
    made.begin([0n, end * S])
    made.done([0n, end * S], true)
    made.saved(made.need, made.floor)
    return made
  }
  const writer = rollup('a', 'b', until)
  const above = tiers.map((end, i) => rollup('b', `c${i}`, end))
  const registry = { of: (_: string, name: string) => (name === 'b' ? above : []), writerOf: (_: string, name: string) => (name === 'b' ? writer : undefined) }
  const held = retentionHold({
    registry: registry as unknown as Registry,
    follower: { caughtUp } as Follower,
    config: { max_hold_secs: maxHold },
    nowMs: () => Number(NOW) * 1000,
    closed: () => NOW * S,
  })
  return { held: (name: string) => held('', name, undefined), above }
}

t.test('buckets are held for the retention of their rollup, from its newest one on where that is older than the clock', async (t) => {
  t.equal(hold({ until: 90_000n }).held('b'), 89_000n * S)
  t.equal(hold({ until: 200_000n }).held('b'), 99_000n * S)
  t.equal(hold({ until: 90_000n }).held('a'), undefined)
})

t.test('of a rollup and the tiers above it the one that needs most says from where on', async (t) => {
  t.equal(hold({ until: 90_000n, tiers: [89_500n, 89_700n] }).held('b'), 89_000n * S)
  t.equal(hold({ until: 90_000n, tiers: [88_000n, 89_700n] }).held('b'), 88_000n * S)
})

t.test('a tier that is behind gives up what max_hold_secs does not hold', async (t) => {
  const { held, above } = hold({ until: 99_990n, tiers: [50_000n], maxHold: 5000 })
  t.equal(held('b'), 95_000n * S)
  t.equal(above[0].lost, 95_000n * S)
})

t.test('until the changes before the start were seen all is held, to the limit, and nothing is given up', async (t) => {
  t.equal(hold({ until: 90_000n, tiers: [89_500n], caughtUp: false }).held('b'), FIRST_TIME)
  const { held, above } = hold({ until: 99_990n, tiers: [99_500n], maxHold: 5000, caughtUp: false })
  t.equal(held('b'), 95_000n * S)
  t.equal(above[0].lost, undefined)
})
