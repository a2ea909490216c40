/** The short form of toggles.ts. SVC_CRASH_ITERATIONS and SVC_CRASH_SEED set the length and the seed. */
import t from 'tap'
import { togglePlugins } from './toggles.ts'

t.setTimeout(600_000)
const { SVC_CRASH_ITERATIONS = '4', SVC_CRASH_SEED } = process.env
const seed = Number(SVC_CRASH_SEED ?? Date.now() % 1_000_000)

t.test('restarts with other plugins, and from backups, lose nothing and leave nothing behind', async (t) => {
  t.comment(`seed ${seed}`)
  await t.resolves(togglePlugins(Number(SVC_CRASH_ITERATIONS), seed, (line) => t.comment(line)))
})
