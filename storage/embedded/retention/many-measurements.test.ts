import t from 'tap'
import { closeAndRemove, NOW, openEngine, tempDir } from '../testing/harness.ts'

const MEASUREMENTS = 20_000
/** Definitions of one write. */
const AT_ONCE = 5000

t.test('a regular pass over many measurements gives others their turns', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, { retention_secs: 7200, shard_duration_secs: 3600 })
  t.teardown(() => closeAndRemove(engine, dir))
  const write = async (from: number, count: number): Promise<void> => {
    const batch = engine.batch('')
    for (let i = from; i < from + count; i++) {
      const ref = engine.resolver.measurement('', `m${i}`)
      const table = batch.table(ref)
      const row = table.addRow(engine.resolver.series(ref, []), Number(BigInt.asIntN(32, NOW)), Number(NOW >> 32n), i)
      table.column('v', 'float64').setF64(row, i)
    }
    await engine.write(batch)
  }
  await write(0, 1)
  const few = await turnsOf(() => engine.tidy())
  for (let at = 1; at < MEASUREMENTS; at += AT_ONCE) await write(at, AT_ONCE)
  t.ok((await engine.measurementsPage({ namespace: '', limit: 0 })).total >= MEASUREMENTS)
  let asked = 0
  engine.holdRetention(() => {
    asked++
    return undefined
  })
  let most = 0
  const many = await turnsOf(
    () => engine.tidy(),
    () => {
      most = Math.max(most, asked)
      asked = 0
    },
  )
  t.ok(many >= few + 4, `${many} turns, and ${few} with one measurement`)
  t.ok(most > 0 && most <= 5000, `${most} measurements of one turn`)
})

/** Turns of the loop until it is done. */
async function turnsOf(body: () => Promise<void>, each: () => void = () => {}): Promise<number> {
  let turns = 0
  let ended = false
  const count = (): void => {
    turns++
    each()
    if (!ended) setImmediate(count)
  }
  setImmediate(count)
  await body()
  ended = true
  return turns
}
