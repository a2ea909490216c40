/**
 * A node that takes points from an MQTT broker while its disk is full: what cannot be stored is not acknowledged and is no dead letter, the node goes on by
 * itself as soon as there is room, and at the end it has each point that was published once. It is killed on the full disk, too.
 *
 *   node test/crash/source-disk.ts [seed]
 *
 * The last line is the report as JSON; without the right to mount it says `skipped`.
 */
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Aedes } from 'aedes'
import { connectAsync } from 'mqtt'
import { seeded } from '../../kernel/lib/random/index.ts'
import { type RunningServer, runServer } from '../support/server.ts'
import { until } from '../support/until.ts'
import { SMALL } from './kill-loop.ts'
import { mayMount, SmallDisk } from './small-disk.ts'

export interface SourceDiskReport {
  /** Points that the broker has taken. */
  published: number
  /** Those that were not stored when the disk had been full for a while: before the node was killed, and after. */
  waiting: [number, number]
  stored: number
  wrong: number
  deadLetters: number
  /** From space being free to the first point that is stored. */
  resumedMs: number
}

const MEBIBYTES = 24
/** Of the disk, that are left when it is filled: the log takes them. */
const LEFT_BYTES = 500_000
const FULL_MS = 2000
const TRIES = 5
const TOPIC = 'plant/points'
const BASE = BigInt(Date.now()) * 1_000_000n

async function scenario(folder: string, seed: number): Promise<SourceDiskReport> {
  const random = seeded(seed)
  const disk = SmallDisk.mount(join(folder, 'data'), MEBIBYTES)
  const broker = await Aedes.createBroker()
  const sockets = new Set<Socket>()
  const listener = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    broker.handle(socket)
  })
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  const { port } = listener.address() as { port: number }
  const database = Object.entries(SMALL).map(([key, value]) => `${key} = ${value}`)
  const mqtt = [`broker = "127.0.0.1"`, `port = ${port}`, `topics = ["${TOPIC}"]`, 'format = "line_protocol"', 'client_id = "node"', 'reconnect_ms = 200']
  const config = join(folder, 'svc.toml')
  writeFileSync(config, ['plugins = ["line_protocol", "sql", "mqtt"]', '[database]', 'warm_up_ms = 0', ...database, '[mqtt]', ...mqtt].join('\n'))
  const start = (): Promise<RunningServer> => runServer(config, { keepData: true, env: { SVC_DATA_DIR: disk.path } })
  let node = await start()
  const client = await connectAsync({ host: '127.0.0.1', port })
  let published = 0
  /** Acknowledged by the broker when it resolves. */
  const publish = async (): Promise<void> => {
    const many = 1 + Math.floor(random() * 400)
    const filler = 'x'.repeat(100)
    const lines = Array.from({ length: many }, (_, i) => `m,s=${(published + i) % 7} v=${published + i}i,text="${filler}" ${BASE + BigInt(published + i)}`)
    published += many
    await client.publishAsync(TOPIC, lines.join('\n'), { qos: 1 })
  }
  /** More than there is room for. @returns how many are not stored then. */
  const publishTooMany = async (): Promise<number> => {
    for (let tries = 1; ; tries++) {
      for (let i = 0; i < 60; i++) await publish()
      await sleep(FULL_MS)
      const waiting = published - (await storedOf(node.url)).stored
      // What the log takes of points depends on how many come together.
      if (waiting > 0 || tries === TRIES) return waiting
    }
  }
  try {
    await until('the connector is connected', async () => /"status":"(Idle|Running)"/.test(await text(`${node.url}/api/v1/connectors`)))
    for (let i = 0; i < 5; i++) await publish()
    await until('the first points are stored', async () => (await storedOf(node.url)).stored === published)
    disk.fill(LEFT_BYTES)
    const waitingBefore = await publishTooMany()
    if ((await fetch(`${node.url}/health`)).status !== 200) throw new Error('the node is not healthy')
    process.kill(node.pid, 'SIGKILL')
    // What the log left over of the disk may not be enough for a start.
    disk.release()
    node = await start()
    disk.fill(LEFT_BYTES)
    const waitingAfter = await publishTooMany()
    const stored = published - waitingAfter
    const free = Date.now()
    disk.release()
    await until('points are stored again', async () => (await storedOf(node.url)).stored > stored || stored === published)
    const resumedMs = Date.now() - free
    await until('all points are stored', async () => (await storedOf(node.url)).stored >= published).catch(() => {})
    const letters = join(disk.path, 'dead-letters', 'mqtt-default.jsonl')
    const deadLetters = existsSync(letters) ? statSync(letters).size : 0
    return { published, waiting: [waitingBefore, waitingAfter], ...(await storedOf(node.url)), deadLetters, resumedMs }
  } finally {
    await client.endAsync(true)
    await node.stop()
    for (const socket of sockets) socket.destroy()
    await new Promise<void>((resolve) => broker.close(resolve))
    listener.close()
    disk.unmount()
  }
}

async function storedOf(url: string): Promise<{ stored: number; wrong: number }> {
  const query = `SELECT count(DISTINCT v), count(*) FILTER (WHERE epoch_ns(_time) - ${BASE} <> v OR s <> CAST(v % 7 AS VARCHAR)) FROM m`
  const answer = await fetch(`${url}/api/v1/svc/sql`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ query }) })
  const body = (await answer.json()) as { rows?: unknown[][] }
  const [stored, wrong] = answer.ok ? (body.rows as unknown[][])[0].map(Number) : [0, 0]
  return { stored, wrong }
}

const text = async (url: string): Promise<string> => (await fetch(url)).text()

if (import.meta.main) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-source-disk-'))
  try {
    const other = mayMount(folder)
    if (other !== undefined && 'exitCode' in other) process.exitCode = other.exitCode
    else if (other !== undefined) console.log(JSON.stringify({ skipped: other.reason }))
    else console.log(JSON.stringify(await scenario(folder, Number(process.argv[2] ?? Date.now() % 1_000_000))))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
