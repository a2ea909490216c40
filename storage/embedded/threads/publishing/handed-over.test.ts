/** The state is handed to a thread that starts in slices: what it is asked meanwhile sees all of it, and what has come since. */
import { moduleUrl } from 'svcdb/lib/modules'
import t from 'tap'
import { testContext } from '../../../conformance/index.ts'
import { EmbeddedEngine } from '../../engine.ts'
import { realEnvironment } from '../../environment.ts'
import { closeAndRemove, NOW, NOW_MS, openEngine, rowsOf, tempDir, writeFloat } from '../../testing/harness.ts'
import { HeldLog } from '../../testing/held-log.ts'
import type { StateEvent, ToWorker } from '../messages.ts'

const JOB = moduleUrl('../testing/thread-id-job.ts', import.meta.url)
const MEASUREMENTS = 1200
/** Measurements of many fields. */
const WIDE = 40
const WIDE_FIELDS = 200
const SLICE = 1000
const COLUMNS = 4
const CHUNK_INTS = 5000

const weightOf = (events: readonly StateEvent[]): number => events.reduce((sum, event) => sum + objectsIn(event), 0)

/** What is handed over is copied, column by column. */
function objectsIn(event: StateEvent): number {
  if (event.kind === 'segments') return event.added.reduce((sum, { columns }) => sum + 1 + columns.length / COLUMNS, 0)
  if (event.kind === 'measurement' || event.kind === 'table') return 1 + event.def.fields.length / COLUMNS
  return event.kind === 'chunk' ? 1 + event.chunk.columns.length / CHUNK_INTS : 1
}

t.test('a thread that starts late learns of all in slices, and of what comes meanwhile', async (t) => {
  const dir = tempDir()
  const weights: number[] = []
  const startThread: typeof realEnvironment.startThread = (data) => {
    weights.push(weightOf(data.state))
    const worker = realEnvironment.startThread(data)
    const post = worker.postMessage.bind(worker)
    worker.postMessage = (message: ToWorker) => {
      if (message.kind === 'state') weights.push(weightOf(message.events))
      post(message)
    }
    return worker
  }
  const opened = () =>
    new EmbeddedEngine(
      testContext({ data_dir: dir, warm_up_ms: 0 }, () => NOW_MS),
      { startThread },
    )
  let engine = opened()
  await engine.open()
  t.teardown(() => closeAndRemove(engine, dir))
  const write = (from: number, to: number) => Promise.all(Array.from({ length: to - from }, (_, i) => writeFloat(engine, `m${from + i}`, 'a', NOW, { v: i })))
  await write(0, MEASUREMENTS)
  const fields = Object.fromEntries(Array.from({ length: WIDE_FIELDS }, (_, i) => [`f${i}`, i]))
  for (let i = 0; i < WIDE; i++) await writeFloat(engine, `wide${i}`, 'a', NOW, fields)
  const refused = engine.run(JOB, () => {}).result
  const read = rowsOf(engine, `m${MEASUREMENTS - 1}`)
  await t.rejects(refused, { message: /could not be cloned/ }, 'what cannot be said to the thread keeps nothing else from it')
  const written = write(MEASUREMENTS, MEASUREMENTS + 10)
  t.same(await read, [`a ${NOW} v=${MEASUREMENTS - 1}`])
  await written
  for (const [i, v] of [
    [0, 0],
    [MEASUREMENTS + 9, 9],
  ])
    t.same(await rowsOf(engine, `m${i}`), [`a ${NOW} v=${v}`])
  t.ok(weights.length >= 3, 'there are several slices')
  t.ok(Math.max(...weights) <= SLICE, `at most ${SLICE} at once: ${weights}`)

  await engine.flush()
  await engine.close()
  // All is in segments.
  engine = opened()
  await engine.open()
  weights.length = 0
  for (const [i, v] of [
    [7, 7],
    [MEASUREMENTS + 9, 9],
  ])
    t.same(await rowsOf(engine, `m${i}`), [`a ${NOW} v=${v}`])
  t.ok(Math.max(...weights) <= SLICE, `at most ${SLICE} at once: ${weights}`)
})

t.test('a thread that starts while a drop is on its way knows the measurement when the drop fails', async (t) => {
  const dir = tempDir()
  const log = new HeldLog()
  const engine = await openEngine(dir, { warm_up_ms: 0 }, log.fs)
  t.teardown(() => closeAndRemove(engine, dir))
  for (const measurement of ['m', 'other']) await writeFloat(engine, measurement, 'a', NOW, { v: 1 })
  const held = log.hold()
  const dropped = t.rejects(engine.drop('', 'm'), /no space left/)
  await held
  t.same(await rowsOf(engine, 'other'), [`a ${NOW} v=1`])
  log.fail()
  await dropped
  t.same(await rowsOf(engine, 'm'), [`a ${NOW} v=1`])
})
