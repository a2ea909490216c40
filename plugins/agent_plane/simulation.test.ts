/**
 * Lives of the plane in which processes die, at every call of a few and at random ones of many. SVC_SEED=<n> repeats a seed, SVC_SEEDS=<n> takes that many;
 * testing/simulate.ts is the long form.
 */
import t from 'tap'
import { live } from './testing/life.ts'

t.setTimeout(600_000)
const FIRST_SEED = 20_260_101
const { SVC_SEED, SVC_SEEDS = '150' } = process.env
const seeds = SVC_SEED === undefined ? Array.from({ length: Number(SVC_SEEDS) }, (_, i) => FIRST_SEED + i) : [Number(SVC_SEED)]

for (const rivals of [false, true]) {
  t.test(`random lives, ${rivals ? 'two processes at once' : 'one process after the other'}`, async (t) => {
    const total = { deaths: 0, performed: 0, tasks: 0, recalled: 0, statuses: new Set<string>() }
    for (const seed of seeds) {
      try {
        const { deaths, performed, tasks, recalled, statuses } = await live(seed, { death: 0.015, failure: 0.15, rivals })
        total.deaths += deaths
        total.performed += performed
        total.tasks += tasks
        total.recalled += recalled
        for (const status of statuses) total.statuses.add(status)
      } catch (error) {
        t.fail(`SVC_SEED=${seed} ${(error as Error).stack}`)
      }
    }
    t.comment(
      `SVC_SEED=${seeds[0]} and ${seeds.length - 1} more: ${total.deaths} deaths, ${total.performed} effects, ${total.tasks} tasks, ${total.recalled} runs recalled, ${[...total.statuses].sort()}`,
    )
    if (seeds.length > 50) {
      const many = total.deaths > seeds.length / 2 && total.performed > seeds.length && total.tasks > seeds.length / 4
      t.ok(total.recalled > 0, 'runs are recalled by those that have commissioned them')
      t.ok(many, `${total.deaths} deaths, ${total.performed} effects, ${total.tasks} tasks`)
      for (const status of ['succeeded', 'failed', 'cancelled', 'quarantined']) t.ok(total.statuses.has(status), status)
    }
  })
}

t.test('a death at every call of a life', async (t) => {
  let lives = 0
  for (const seed of seeds.slice(0, 2)) {
    const { calls } = await live(seed, { death: 0, failure: 0.1, rivals: false })
    for (let dieAt = 1; dieAt <= calls; dieAt++, lives++) {
      try {
        await live(seed, { death: 0, failure: 0.1, rivals: false, dieAt })
      } catch (error) {
        t.fail(`SVC_SEED=${seed}, at call ${dieAt} ${(error as Error).stack}`)
      }
    }
  }
  t.ok(lives > 20, `${lives} lives`)
})
