/** The deleting client and its ledger, as the kill loop runs and checks them. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type DeleterOptions, readLives } from './deleter.ts'
import { query } from './ledger.ts'
import { SHARED_BY_ALL, text } from './life-model.ts'

const DELETER = fileURLToPath(new URL('./deleter.ts', import.meta.url))
const DAY = 86_400_000_000_000n

export class Deletions {
  private readonly ledger: string
  private readonly base: bigint
  private readonly doubtful: { done: number; undone: number }

  constructor(ledger: string, base: bigint, doubtful: { done: number; undone: number }) {
    this.ledger = ledger
    this.base = base
    this.doubtful = doubtful
    writeFileSync(ledger, '')
  }

  /**
   * Resolves when the client has noticed that the server is gone. May be awaited late: what has gone wrong is told then.
   * @throws Error for an answer that no operation may get.
   */
  start(options: Omit<DeleterOptions, 'ledger' | 'base'>): Promise<void> {
    const running = this.run({ ...options, ledger: this.ledger, base: String(this.base) })
    // Whoever awaits it ends the server first, and says what that has logged; unhandled, the rejection would end this process instead.
    running.catch(() => {})
    return running
  }

  private async run(options: DeleterOptions): Promise<void> {
    const client = spawn(process.execPath, [DELETER, JSON.stringify(options)], { stdio: ['ignore', 'inherit', 'inherit'] })
    const [code] = (await once(client, 'exit')) as [number]
    if (code !== 0) throw new Error(`the deleting client has exited with ${code}`)
    // While it is known which server has answered.
    readLives(this.ledger, this.base)
  }

  /** Compares all points with what the ledger says, and notes in it how requests without an answer went. @throws Error for the first difference. */
  async check(url: string, sql: boolean): Promise<void> {
    const lives = readLives(this.ledger, this.base)
    const shared = new Map<string, { time: bigint; line: string }[]>()
    for (const name of SHARED_BY_ALL)
      shared.set(
        name,
        (await this.points(url, name)).map((point) => ({ time: point.time, line: text(point) })),
      )
    const listed = await measurements(url)
    for (const [connection, life] of lives.entries()) {
      const found = new Map([...shared].map(([name, points]) => [name, points.flatMap(({ time, line }) => (life.owns(time) ? [line] : [])).sort()]))
      const own = (await this.points(url, life.dropped)).map(text).sort()
      found.set(life.dropped, own)
      const outcome = life.settle(found)
      if (listed.has(life.dropped) !== own.length > 0)
        throw new Error(`${life.dropped} has ${own.length} points, and is ${listed.has(life.dropped) ? '' : 'not '}listed`)
      if (sql && own.length > 0) await sameCount(url, life.dropped, own.length)
      if (outcome === undefined) continue
      this.doubtful[outcome]++
      appendFileSync(this.ledger, `${connection} ${outcome}\n`)
    }
    if (!sql) return
    for (const [name, points] of shared) if (listed.has(name)) await sameCount(url, name, points.length)
  }

  counts(): Record<string, number> {
    const counts: Record<string, number> = {}
    for (const { done } of readLives(this.ledger, this.base)) for (const [kind, count] of Object.entries(done)) counts[kind] = (counts[kind] ?? 0) + count
    return counts
  }

  private points(url: string, measurement: string) {
    return query(url, measurement, this.base - DAY, this.base + DAY)
  }
}

async function measurements(url: string): Promise<Set<string>> {
  const answer = await fetch(`${url}/api/v1/measurements`)
  if (answer.status !== 200) throw new Error(`the list of measurements answers ${answer.status}`)
  return new Set(((await answer.json()) as { items: { name: string }[] }).items.map(({ name }) => name))
}

async function sameCount(url: string, measurement: string, expected: number): Promise<void> {
  const answer = await fetch(`${url}/api/v1/svc/sql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query: `SELECT count(*) AS n FROM ${measurement}` }),
  })
  const body = await answer.text()
  if (answer.status !== 200) throw new Error(`the SQL count of ${measurement} answers ${answer.status}: ${body.slice(0, 500)}`)
  const { rows } = JSON.parse(body) as { rows: [number][] }
  if (rows[0][0] !== expected) throw new Error(`SQL counts ${rows[0][0]} points of ${measurement}, the native query ${expected}`)
}
