/** Engine threads step back from where the process stands: Linux lets no usual account come forward again. */
import { readdirSync, readFileSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'
import { moduleUrl } from 'svcdb/lib/modules'
import t from 'tap'
import { closeAndRemove, openEngine, tempDir } from '../../testing/harness.ts'

const JOB = moduleUrl('../testing/niceness-job.ts', import.meta.url)
const STATEMENT = new URL('../../testing/decoded-job.ts', import.meta.url)
/** Run in an engine process: on no list of what is bounded. */
const APART = 'SELECT len([1]) AS one'

/** Niceness of the processes that this one has started, of an engine process that of its main thread. */
function children(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
          .replace(/^.*\) /s, '')
          .split(' ')
        return Number(fields[1]) === process.pid ? [Number(fields[16])] : []
      } catch {
        return [] // it has ended
      }
    })
}

t.test('engine threads and processes of a server that is nice itself are nicer still', { skip: process.platform !== 'linux' }, async (t) => {
  // This thread, and those that it starts. Whoever is nicer already stays so.
  const own = Math.max(getPriority(), 12)
  setPriority(own)
  // The nicest first: processes of an engine that was closed may be about to end.
  for (const [niceness, expected] of [
    [10, 19],
    [3, Math.min(19, own + 3)],
    [0, own],
  ]) {
    const dir = tempDir()
    const engine = await openEngine(dir, { query_threads: 1, engine_niceness: niceness })
    t.equal(await engine.run<number>(JOB, undefined).result, expected, `engine_niceness = ${niceness}`)
    await engine.run(STATEMENT, { namespace: 'default', query: APART, parameters: [] }, { timeoutMs: 60_000 }).result
    t.same(
      children().filter((of) => of < Math.min(19, niceness === 0 ? own : expected + 5)),
      [],
      'engine processes',
    )
    await closeAndRemove(engine, dir)
  }
})
