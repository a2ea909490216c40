/**
 * Lives of the plane in which processes die, at every call of a few and at random ones of many, and in which the store fails. SVC_SEED=<n> repeats a seed,
 * SVC_SEEDS=<n> takes that many; testing/simulate.ts is the long form.
 */
import t from 'tap'
import { live } from './testing/life.ts'

t.setTimeout(600_000)
const FIRST_SEED = 20_260_101
const { SVC_SEED, SVC_SEEDS = '400' } = process.env
const seeds = SVC_SEED === undefined ? Array.from({ length: Number(SVC_SEEDS) }, (_, i) => FIRST_SEED + i) : [Number(SVC_SEED)]
const KINDS = [
  { name: 'one process after the other', rivals: false, store: 0 },
  { name: 'two processes at once', rivals: true, store: 0 },
  { name: 'one process after the other, over a store that fails', rivals: false, store: 0.02 },
  { name: 'two processes at once, over a store that fails', rivals: true, store: 0.02 },
]

for (const [index, { name, rivals, store }] of KINDS.entries()) {
  t.test(`random lives, ${name}`, async (t) => {
    const own = SVC_SEED === undefined ? seeds.filter((_, i) => i % KINDS.length === index) : seeds
    const total = { deaths: 0, failed: 0, performed: 0, tasks: 0, recalled: 0, statuses: new Set<string>() }
    for (const seed of own) {
      try {
        const { deaths, failed, performed, tasks, recalled, statuses } = await live(seed, { death: 0.015, failure: 0.15, rivals, store })
        total.deaths += deaths
        total.failed += failed
        total.performed += performed
        total.tasks += tasks
        total.recalled += recalled
        for (const status of statuses) total.statuses.add(status)
      } catch (error) {
        t.fail(`SVC_SEED=${seed} ${(error as Error).stack}`)
      }
    }
    t.comment(
      `SVC_SEED=${own[0]} and ${own.length - 1} more: ${total.deaths} deaths, ${total.failed} calls that the store failed, ${total.performed} effects, ${total.tasks} tasks, ${total.recalled} runs recalled, ${[...total.statuses].sort()}`,
    )
    if (own.length > 50) {
      const many = total.deaths > own.length / 2 && total.performed > own.length && total.tasks > own.length / 4
      t.ok(total.recalled > 0, 'runs are recalled by those that have commissioned them')
      t.ok(many, `${total.deaths} deaths, ${total.performed} effects, ${total.tasks} tasks`)
      t.ok(store === 0 ? total.failed === 0 : total.failed > own.length * 4, `${total.failed} calls that the store failed`)
      for (const status of ['succeeded', 'failed', 'cancelled', 'quarantined']) t.ok(total.statuses.has(status), status)
    }
  })
}

t.test('a death at every call of a life', async (t) => {
  let lives = 0
  for (const seed of seeds.slice(0, 1)) {
    const { calls } = await live(seed, { death: 0, failure: 0.1, rivals: false, store: 0 })
    for (let dieAt = 1; dieAt <= calls; dieAt++, lives++) {
      try {
        await live(seed, { death: 0, failure: 0.1, rivals: false, store: 0, dieAt })
      } catch (error) {
        t.fail(`SVC_SEED=${seed}, at call ${dieAt} ${(error as Error).stack}`)
      }
    }
  }
  t.ok(lives > 20, `${lives} lives`)
})
