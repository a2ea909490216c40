/**
 * A forecast for each of 10,000 series in one statement, again and again, beside a writer that waits for each answer before it sends the next batch: rows a second
 * alone and beside it, in turn, and seconds a statement alone and beside the writer.
 *
 *   node plugins/analytics/forecasts-beside-ingest.bench.ts [model=ses] [rounds=3] [seconds=8]
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runServer } from '../../test/support/server.ts'

const argument = (name: string, otherwise: string): string => process.argv.find((text) => text.startsWith(`${name}=`))?.slice(name.length + 1) ?? otherwise
const MODEL = argument('model', 'ses')
const ROUNDS = Number(argument('rounds', '3'))
const SECONDS = Number(argument('seconds', '8'))
const SERIES = 10_000
const SAMPLES = 100
const BATCH = 5000
const CONNECTIONS = 2

const folder = await mkdtemp(join(tmpdir(), 'svc-bench-'))
await writeFile(
  join(folder, 'svc.toml'),
  'plugins = ["line_protocol", "sql"]\n[server]\nhttp_addr = "$' + '{SVC_BIND}"\n[database]\ndata_dir = "$' + '{SVC_DATA_DIR}"\n',
)
const server = await runServer(join(folder, 'svc.toml'))
const agent = new Agent({ keepAlive: true, maxSockets: 16 })

function post(path: string, payload: string, type: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request(`${server.url}${path}`, { method: 'POST', agent, headers: { 'content-type': type } }, (answer) => {
      let text = ''
      answer.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      answer.on('end', () => ((answer.statusCode as number) < 300 ? resolve(text) : reject(new Error(text))))
    })
    sent.on('error', reject)
    sent.end(payload)
  })
}

const begin = BigInt(Date.now()) * 1_000_000n - 3_600_000_000_000n
let second = 0
/** Ten fields of a thousand hosts. */
function batch(): string {
  const lines: string[] = []
  for (let i = 0; i < BATCH; i++) {
    const host = i % 1000
    if (host === 0) second++
    const fields = Array.from({ length: 10 }, (_, f) => `f${f}=${(host * 7 + f * 3 + second) % 100}`).join(',')
    lines.push(`cpu,host=h${host},region=r${host % 10} ${fields} ${begin + BigInt(second) * 100_000_000n}`)
  }
  return lines.join('\n')
}

async function ingest(until: () => boolean): Promise<number> {
  const ready = Array.from({ length: 20 }, batch)
  const began = performance.now()
  let rows = 0
  const connection = async (): Promise<void> => {
    while (!until()) {
      await post('/write', ready.pop() ?? batch(), 'text/plain')
      rows += BATCH
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, connection))
  return rows / ((performance.now() - began) / 1000)
}

async function forecasts(until: () => boolean): Promise<number[]> {
  const seconds: number[] = []
  while (!until()) {
    const began = performance.now()
    const query = `SELECT count(f), sum(len(f)) FROM (SELECT series, forecast(v, _time, 24, '${MODEL}') AS f FROM sensor GROUP BY series)`
    const { rows } = JSON.parse(await post('/api/v1/svc/sql', JSON.stringify({ query }), 'application/json')) as { rows: number[][] }
    if (rows[0][0] !== SERIES || Number(rows[0][1]) !== SERIES * 24) throw new Error(`forecasts of ${rows}`)
    seconds.push((performance.now() - began) / 1000)
  }
  return seconds
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1]

try {
  for (let sample = 0; sample < SAMPLES; sample += 10) {
    const lines: string[] = []
    for (let s = 0; s < SERIES; s++)
      for (let k = sample; k < sample + 10; k++)
        lines.push(`sensor,series=s${s} v=${50 + (s % 40) + 5 * Math.sin(k / 4 + s) + ((k * 7919 + s) % 13) / 10} ${begin + BigInt(k) * 10_000_000_000n}`)
    for (let at = 0; at < lines.length; at += 50_000) await post('/write', lines.slice(at, at + 50_000).join('\n'), 'text/plain')
  }
  const alone: number[] = []
  const beside: number[] = []
  const statements: number[] = []
  await forecasts(() => true)
  const aloneStatements = await forecasts(after(SECONDS))
  for (let round = 0; round < ROUNDS; round++) {
    alone.push(await ingest(after(SECONDS)))
    const end = after(SECONDS)
    const [rows, seconds] = await Promise.all([ingest(end), forecasts(end)])
    beside.push(rows)
    statements.push(...seconds)
  }
  const rate = (values: readonly number[]): string => `${Math.round(median(values) / 1000)} k rows/s (${values.map((v) => Math.round(v / 1000)).join(', ')})`
  console.log(`model ${MODEL}: alone ${rate(alone)}, beside ${rate(beside)}: ${Math.round((100 * median(beside)) / median(alone))} %`)
  console.log(
    `${SERIES} forecasts: ${median(aloneStatements).toFixed(2)} s alone, ${median(statements).toFixed(2)} s beside the writer (${statements.length} statements)`,
  )
} finally {
  agent.destroy()
  await server.stop()
  await rm(folder, { recursive: true, force: true })
}

function after(seconds: number): () => boolean {
  const end = performance.now() + seconds * 1000
  return () => performance.now() > end
}
