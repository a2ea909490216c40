/** The short form of both commands. SVC_CRASH_ITERATIONS, SVC_CRASH_ROUNDS and SVC_CRASH_SEED set the length and the seed. */
import t from 'tap'
import { killLoop } from './kill-loop.ts'
import { tornWal } from './torn-wal.ts'

/** Points that fill the loop's small memtable several times over. */
const ENOUGH_TO_FLUSH = 20_000
t.setTimeout(600_000)
const { SVC_CRASH_ITERATIONS = '6', SVC_CRASH_ROUNDS = '1', SVC_CRASH_SEED } = process.env
const seed = Number(SVC_CRASH_SEED ?? Date.now() % 1_000_000)

t.test('the check notices an engine that forgets', async (t) => {
  await t.rejects(killLoop({ iterations: 2, seed: 1, engine: 'memory' }), /acknowledged batch \d+ is missing/)
})

t.test('what was acknowledged survives SIGKILL: writes, deletes, drops and what undoes them', async (t) => {
  const report = await killLoop({ iterations: Number(SVC_CRASH_ITERATIONS), seed })
  t.comment(`seed ${seed}: ${report.kills} kills, ${report.acknowledged} batches acknowledged, slowest start ${Math.round(report.slowestReadyMs)} ms`)
  t.ok(report.acknowledged > 0 && report.points > report.acknowledged)
  if (report.points > ENOUGH_TO_FLUSH) t.ok(report.segments > 0, 'the memtable was flushed during the loop')
  const { lives = {}, doubtful, compactions } = report
  const told = Object.entries(lives).map(([kind, count]) => `${kind} ${count}`)
  t.comment(`${told.join(', ')}; in doubt: ${doubtful.done} done, ${doubtful.undone} not; ${compactions} merges`)
  t.ok((lives.write ?? 0) > 0 && (lives.delete ?? 0) > 0, 'points were deleted')
})

t.test('a corrupted log is cut, refused or reported, never misread', async (t) => {
  const { cases } = await tornWal({ rounds: Number(SVC_CRASH_ROUNDS), seed })
  t.comment(`seed ${seed}: ${cases.map((c) => `${c.corruption}: ${c.started ? `${c.lost} lost` : 'refused'}`).join('; ')}`)
  t.ok(cases.some((c) => c.started) && cases.some((c) => !c.started), 'some start, some are refused')
})
