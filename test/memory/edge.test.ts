/**
 * What an edge may take while points come in: memory, processor time, what it loads. The aims are 90 MiB, 15 % of a core at 10,000 points/s and a start of
 * 400 ms (storage/forward/footprint.bench.ts measures them); the bounds here leave room for another machine and for one that is busy.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { type RunningServer, runServer } from '../support/server.ts'

const MIB = 2 ** 20
const MOST_MEMORY = 120 * MIB
/** Of processor, for 10,000 points in writes of 500; a sixth of it is the aim. */
const MOST_MS = 900
/** Of processor, until it is ready. */
const MOST_START_MS = 3000
const SECS = 12
const WRITES_A_SEC = 8
const WRITE = 500
const SERIES = 500

t.setTimeout(300_000)

const residentOf = (pid: number): number => Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024

/** Of all threads, in milliseconds. */
function processorMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

t.test(
  'an edge stays small while points come in',
  { skip: existsSync('/proc/self/smaps') ? false : 'the system does not say what a process has' },
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-edge-memory-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const started = async (name: string, text: string): Promise<RunningServer> => {
      const file = join(folder, `${name}.toml`)
      writeFileSync(file, text)
      const env = { HOME: process.env.HOME ?? folder }
      // A start that finds no compiled code takes more memory for good: one goes before, and leaves it.
      if (name === 'edge') await (await runServer(file, { env })).stop()
      const server = await runServer(file, { env })
      t.teardown(() => server.stop())
      return server
    }
    const central = await started('central', 'plugins = ["grpc", "sql"]\n[database]\nwarm_up_ms = 0\n')
    const port = /grpc.*port=(\d+)|port=(\d+).*grpc/.exec(central.output())?.slice(1).find(Boolean)
    const edge = await started(
      'edge',
      `plugins = ["mqtt", "line_protocol"]\n[database]\nengine = "forward"\n[[database.forward.upstream]]\nurl = "http://127.0.0.1:${port}"\n`,
    )
    const startMs = processorMs(edge.pid)
    t.ok(startMs < MOST_START_MS, `${startMs} ms of processor until it was ready`)

    let [sent, most] = [0, 0]
    const began = performance.now()
    const look = setInterval(() => {
      most = Math.max(most, residentOf(edge.pid))
    }, 200)
    t.teardown(() => clearInterval(look))
    for (let i = 0; i < SECS * WRITES_A_SEC; i++) {
      const now = BigInt(Date.now()) * 1_000_000n
      const lines = Array.from(
        { length: WRITE },
        (_, n) => `machine,id=m${n % SERIES},site=s${n % 7} temperature=${(n % 1000) / 10},pressure=${n} ${now + BigInt(i * WRITE + n)}`,
      )
      const answer = await fetch(`${edge.url}/write`, { method: 'POST', body: lines.join('\n') })
      t.equal(answer.status, 204)
      sent += WRITE
      const due = began + (i * 1000) / WRITES_A_SEC
      if (due > performance.now()) await sleep(due - performance.now())
    }
    const stored = async (): Promise<number> => {
      const body = JSON.stringify({ query: 'SELECT count(*) FROM machine' })
      const answer = await fetch(`${central.url}/api/v1/svc/sql`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
      return answer.ok ? Number(((await answer.json()) as { rows: unknown[][] }).rows[0][0]) : 0
    }
    while ((await stored()) < sent) await sleep(100)
    const used = processorMs(edge.pid) - startMs
    const each = (used * 10_000) / sent
    t.comment(`${sent} points, at most ${(most / MIB).toFixed(1)} MiB, ${Math.round(each)} ms of processor for 10,000 points, ${startMs} for the start`)
    t.ok(most > 0 && most < MOST_MEMORY, `${Math.round(most / MIB)} MiB`)
    t.ok(each < MOST_MS, `${Math.round(each)} ms of processor for 10,000 points`)
    const maps = readFileSync(`/proc/${edge.pid}/maps`, 'utf8')
    t.notMatch(maps, /duckdb|lmdb/, 'no engine of a full node is loaded')
    t.match(readFileSync(`/proc/${central.pid}/maps`, 'utf8'), /duckdb/, 'which the full node has')
  },
)
