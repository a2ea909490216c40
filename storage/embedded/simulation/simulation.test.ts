/** The short form of the simulator: a new seed each time, printed; and that a seed repeats itself. The long form is run.ts. */
import t from 'tap'
import { World } from './world.ts'

const LIVES = 300
const LIVES_OF_EACH = 8

t.setTimeout(300_000)

t.test('databases live through faults, kills and power cuts, and are what their operations add up to', async (t) => {
  const first = Math.floor(Math.random() * 2 ** 31)
  t.comment(`seeds from ${first} on; node storage/embedded/simulation/run.ts ${LIVES_OF_EACH} <seed> --trace repeats one`)
  for (let seed = first, lives = 0; lives < LIVES; seed++) {
    const outcome = await new World(seed).run(LIVES_OF_EACH)
    lives += outcome.lives
    if (outcome.problem !== undefined) t.fail(`seed ${seed}, life ${outcome.lives}, event ${outcome.steps}: ${outcome.problem}`)
  }
})

t.test('a seed is one run, event for event', async (t) => {
  for (const seed of [1, 2, 3]) {
    const [one, other] = [await new World(seed).run(LIVES_OF_EACH), await new World(seed).run(LIVES_OF_EACH)]
    t.ok(one.steps > 0)
    t.same(other, one, `seed ${seed}`)
  }
  t.not((await new World(4).run(1)).hash, (await new World(5).run(1)).hash)
})
