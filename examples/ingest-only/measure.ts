/**
 * Start time and memory, as the README shows them: node examples/ingest-only/measure.ts [starts]
 * Resident memory is read from /proc, so it needs Linux.
 */
import { readFileSync } from 'node:fs'
import { runServer } from '../../test/support/server.ts'

const starts = Number(process.argv[2] ?? 5)
const median = (values: number[]): number => Math.round(values.sort((a, b) => a - b)[Math.floor(values.length / 2)])
const resident = (pid: number): number => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024

async function measure(example: string, query?: string): Promise<void> {
  const [ready, idle, working]: number[][] = [[], [], []]
  for (let i = 0; i < starts; i++) {
    const server = await runServer(`examples/${example}/svc.toml`)
    ready.push(server.readyMs)
    idle.push(resident(server.pid))
    await fetch(`${server.url}/write`, { method: 'POST', body: 'cpu,host=a usage=1' })
    if (query !== undefined) {
      const answer = await fetch(`${server.url}/api/v1/svc/sql`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ query }),
      })
      if (answer.status !== 200) throw new Error(await answer.text())
    }
    working.push(resident(server.pid))
    await server.stop()
  }
  const after = query === undefined ? 'after a write' : 'after a write and a query'
  console.log(`${example}: ready after ${median(ready)} ms, ${median(idle)} MiB resident, ${median(working)} MiB ${after} (medians of ${starts})`)
}

await measure('ingest-only')
await measure('full', 'SELECT count(*) FROM cpu')
