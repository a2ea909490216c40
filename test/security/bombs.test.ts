/** Statements meant to do harm, several at once, against the real server: what they may cost, and that nobody else notices. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { family } from '../support/processor-time.ts'
import { ANSWER_LIMIT_MS, BOMBS, QUERY_MEMORY_MIB, Target, TIMEOUT_SECS } from './bombs.ts'

/** As many as engine processes, so that none waits for another's bomb. */
const READERS = 2
const OTHERS_MIB = 256
/** Processor time of all that is at work until a bomb is answered: what counts is no busy machine's time. */
const BOMB_WORK_MS = (TIMEOUT_SECS * 1000 + 4000) * READERS
/** The same of a stop, of which shutdown_timeout_secs is the limit. */
const STOP_WORK_MS = 12_000 * READERS
/**
 * They may be answered: what they describe does not run, or is large and does nothing. `texts` may end between two looks at its memory, which is bounded with that of all
 * others below.
 */
const HARMLESS = new Set(['describe', 'shortConjunction', 'texts'])
/** Like others of the list: the script `bombs.ts` sends them too. */
const LEFT_OUT = new Set(['lpad', 'printf', 'format', 'bitstring', 'text', 'unions', 'matches'])
const WINDOW_MS = 500
const skip = process.platform === 'linux' ? false : 'memory and processor time are read from /proc'

t.test('bombs end by an error that names a limit, others go on, and nothing is left at work', { skip }, async (t) => {
  const target = await Target.start()
  t.teardown(() => target.stop())
  const bombs = Object.entries(BOMBS).filter(([name]) => !LEFT_OUT.has(name))
  let readers = READERS
  const others = { queries: 0, late: 0, writes: 0, slowest: 0 }

  const reader = async (): Promise<void> => {
    for (let bomb = bombs.shift(); bomb !== undefined; bomb = bombs.shift()) {
      const [name, sql] = bomb
      const before = target.processorMs()
      const { status, body, ms } = await target.query(sql)
      const used = target.processorMs() - before
      if (HARMLESS.has(name) && status === 200) continue
      t.ok(status === 400 || status === 504, `${name}: ${status} ${body.slice(0, 200)}`)
      t.match(body, /per_query_memory_limit|sql_query_timeout_secs|sql_max_|max_scratch_size|only compare the name/, name)
      t.ok(used < BOMB_WORK_MS && ms < ANSWER_LIMIT_MS, `${name}: after ${Math.round(ms)} ms, ${used} ms of processor time`)
    }
    readers--
  }
  const bystander = async (): Promise<void> => {
    while (readers > 0) {
      const { status, body, ms } = await target.query('SELECT host, count(*) FROM load WHERE v < 1000 GROUP BY host ORDER BY host')
      others.slowest = Math.max(others.slowest, ms)
      // Where the machine is busy with other things a small query may meet its limit as well.
      if (status === 504) others.late++
      else if (status === 200) others.queries++
      else t.fail(body)
      if ((await target.write(`other v=${others.writes}`)) === 204) others.writes++
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
  await Promise.all([...Array.from({ length: READERS }, reader), bystander()])

  t.ok(others.queries >= 5, `${others.queries} other queries were answered, ${others.late} were late, the slowest took ${Math.round(others.slowest)} ms`)
  t.equal(others.writes, others.queries + others.late, 'and as many writes')
  const peak = Math.round(target.peak() / (1 << 20))
  t.ok(peak < QUERY_MEMORY_MIB + OTHERS_MIB, `memory grew by ${peak} MiB at most`)
  // What a bomb left at work would never rest.
  let [windows, used] = [0, Number.POSITIVE_INFINITY]
  for (; windows < 60 && used > WINDOW_MS / 5; windows++) {
    const before = target.processorMs()
    await new Promise((resolve) => setTimeout(resolve, WINDOW_MS))
    used = target.processorMs() - before
  }
  t.ok(used <= WINDOW_MS / 5, `${used} ms of processor time in ${WINDOW_MS} ms, ${windows * WINDOW_MS} ms after the last answer`)
  const files = readdirSync(join(target.server.dataDir, 'tmp'), { recursive: true, encoding: 'utf8' })
  t.same(
    files.filter((name) => /parquet|tmp$/.test(name)),
    [],
    'no rows are left in the scratch space',
  )
})

t.test('SIGTERM ends the node in time while bombs run', { skip }, async (t) => {
  const target = await Target.start()
  const running = Promise.allSettled([target.query(BOMBS.levenshtein), target.query(BOMBS.join), target.query(BOMBS.lambdas)])
  while (family(target.server.pid).length < 3) await new Promise((resolve) => setTimeout(resolve, 20))
  const processes = family(target.server.pid)
  const [began, before] = [performance.now(), target.processorMs()]
  let used = 0
  const look = setInterval(() => {
    used = Math.max(used, target.processorMs() - before)
  }, 100)
  t.equal(await target.stop(), 0)
  clearInterval(look)
  const ms = performance.now() - began
  t.ok(used < STOP_WORK_MS && ms < ANSWER_LIMIT_MS, `after ${Math.round(ms)} ms, ${used} ms of processor time`)
  await running
  for (const pid of processes) t.throws(() => process.kill(pid, 0), `process ${pid} has ended`)
})
