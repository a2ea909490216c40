/** What a node has in memory when nothing is asked of it, its warm-up done. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { accountOf } from '../support/memory.ts'
import { type RunningServer, runServer } from '../support/server.ts'
import { ROOT } from '../support/tree.ts'

/** For all looks at all three, starts and stops. */
t.setTimeout(500_000)

/** Anonymous memory in MiB as measured, node 24.21 on Linux x64 (docs/benchmarks.md): what files are mapped is the system's to keep. */
const MEASURED = { 'ingest-only': 33, full: 121, 'full, without data': 61 }
const GROWTH = 1.25
/** The heap of a thread is collected when it has rested for five seconds or more; the warm-up of a busy machine takes its time. */
const LOOKS = 40
const LOOK_MS = 2000
/** A start that finds no compiled code has up to 15 MiB more for good: one goes before, and leaves it. */
const FIRST_START_MS = { 'ingest-only': 0, full: 8000, 'full, without data': 0 }

for (const kind of ['ingest-only', 'full', 'full, without data'] as const) {
  const measured = MEASURED[kind]
  t.test(`an idle node: ${kind}`, { skip: !existsSync('/proc/self/status') && 'it is read from /proc' }, async (t) => {
    const file = join(ROOT, 'examples', kind.split(',')[0], 'svc.toml')
    const first = await started(file, kind === 'full')
    await sleep(FIRST_START_MS[kind])
    await first.stop()
    const server = await started(file, kind === 'full')
    t.teardown(() => server.stop())
    const warm = (): boolean => readdirSync(`/proc/${server.pid}/task`).some((id) => threadName(server.pid, id) === 'svc-query')
    const anonymous = (): number => Number(/^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))?.[1]) / 1024
    const most = measured * GROWTH
    let least = Number.POSITIVE_INFINITY
    for (let look = 0; look < LOOKS; look++) {
      await sleep(LOOK_MS)
      // Until the warm-up has begun a full node with data is no example.
      if (kind === 'full' && (!warm() || look < 5)) continue
      least = Math.min(least, anonymous())
      if (least <= most) break
    }
    t.comment(`${least.toFixed(1)} MiB; ${JSON.stringify((await accountOf(server)).consumers)}`)
    t.ok(least <= most, `${least.toFixed(0)} MiB, ${measured} measured, at most a quarter more`)
  })
}

async function started(file: string, withData: boolean): Promise<RunningServer> {
  const server = await runServer(file)
  if (withData) await fetch(`${server.url}/write`, { method: 'POST', body: `cpu,host=a load=1 ${Date.now()}000000` })
  return server
}

function threadName(pid: number, id: string): string {
  try {
    return readFileSync(`/proc/${pid}/task/${id}/comm`, 'utf8').trim()
  } catch {
    return '' // it has ended
  }
}
