/**
 * Corrupts copies of a killed server's write-ahead log and starts on them: a torn tail costs at most what it held, anything else is
 * refused or reported with file and offset; in no case is a value wrong or a batch there in part.
 *
 *   node test/crash/torn-wal.ts [rounds] [seed]
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, unlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Random } from '../../storage/conformance/random.ts'
import { Ledger, readBatches } from './ledger.ts'
import { ServerProcess } from './server.ts'
import type { WriterOptions } from './writer.ts'

const READY_LIMIT_MS = 60_000
const BATCHES = 120
const WRITER = fileURLToPath(new URL('./writer.ts', import.meta.url))
/** Several files, all of them needed: nothing is flushed. */
const UNFLUSHED = { wal_max_file_size: 65_536, wal_max_unflushed: 1000 }
const SECTOR = 512
/** No batch of the workload takes less than 100 bytes in the log. */
const BATCHES_PER_SECTOR = 6
/** Shorter than any record, so that the last one is all that a short tear can cost. */
const SHORT = 20

interface Corruption {
  name: string
  /** @returns the file it has touched. */
  apply(wal: string, files: string[], random: Random): Promise<string>
  /** The most batches it may cost; absent = the server may also refuse to start, or start and say what it lost. */
  mayLose?: number
}

const cut = (bytes: (size: number, random: Random) => number) => async (wal: string, files: string[], random: Random) => {
  const file = files.at(-1) as string
  const content = await readFile(join(wal, file))
  await writeFile(join(wal, file), content.subarray(0, content.length - bytes(content.length, random)))
  return file
}

const patch =
  (pick: (files: string[], random: Random) => string, change: (content: Buffer, random: Random) => Buffer) =>
  async (wal: string, files: string[], random: Random) => {
    const file = pick(files, random)
    await writeFile(join(wal, file), change(await readFile(join(wal, file)), random))
    return file
  }

const last = (files: string[]) => files.at(-1) as string
const anyButLast = (files: string[], random: Random) => random.pick(files.slice(0, -1))

function flipped(content: Buffer, from: number, to: number, random: Random): Buffer {
  const at = Math.floor(content.length * (from + (to - from) * random.next()))
  content[Math.min(at, content.length - 1)] ^= 1 << random.below(8)
  return content
}

const CORRUPTIONS: Corruption[] = [
  { name: 'last byte cut', apply: cut(() => 1), mayLose: 1 },
  { name: 'last bytes cut', apply: cut((_, random) => 1 + random.below(SHORT)), mayLose: 1 },
  { name: 'long tail cut', apply: cut((size, random) => random.below(Math.floor(size * 0.9))), mayLose: BATCHES },
  // Its header was durable before the first write, and the catalog knows of it.
  { name: 'last file cut to nothing', apply: cut((size) => size) },
  // A disk writes whole sectors: what was never written reads as zeros from a sector's start.
  {
    name: 'last sector zero',
    apply: patch(last, (content) => content.fill(0, content.length - 1 - ((content.length - 1) % SECTOR))),
    mayLose: BATCHES_PER_SECTOR,
  },
  {
    name: 'garbage at the end',
    apply: patch(last, (content, random) => Buffer.concat([content, Buffer.from(Array.from({ length: 1 + random.below(500) }, () => random.below(256)))])),
  },
  { name: 'zeros at the end', apply: patch(last, (content, random) => Buffer.concat([content, Buffer.alloc(1 + random.below(5000))])), mayLose: 0 },
  { name: 'bit flipped in an earlier file', apply: patch(anyButLast, (content, random) => flipped(content, 0, 1, random)) },
  { name: 'bit flipped in the last file', apply: patch(last, (content, random) => flipped(content, 0, 0.9, random)) },
  {
    name: 'stretch of an earlier file overwritten',
    apply: patch(anyButLast, (content, random) => content.fill(random.below(256), Math.floor(content.length / 3), Math.floor(content.length / 2))),
  },
  { name: 'earlier file cut', apply: patch(anyButLast, (content, random) => content.subarray(0, Math.floor(content.length * random.next()))) },
  {
    name: 'earlier file gone',
    async apply(wal, files, random) {
      const file = anyButLast(files, random)
      await unlink(join(wal, file))
      return file
    },
  },
]

export interface TornWalReport {
  cases: { corruption: string; started: boolean; lost: number }[]
}

export async function tornWal({ rounds, seed, log = () => {} }: { rounds: number; seed: number; log?: (line: string) => void }): Promise<TornWalReport> {
  const random = new Random(seed)
  const folder = await mkdtemp(join(tmpdir(), 'svc-torn-'))
  const report: TornWalReport = { cases: [] }
  let now = 'the untouched run'
  try {
    const { ledger, wal } = await killedServer(folder)
    const files = (await readdir(wal)).sort()
    if (files.length < 3) throw new Error(`the log has ${files.length} files, which is too few for the cases`)
    for (let round = 0; round < rounds; round++) {
      for (const corruption of CORRUPTIONS) {
        now = `${corruption.name} (round ${round})`
        const copy = join(folder, `${round}-${corruption.name.replaceAll(' ', '-')}`)
        await mkdir(copy)
        await cp(join(folder, 'data'), join(copy, 'data'), { recursive: true })
        const file = await corruption.apply(join(copy, 'data', 'wal'), files, random)
        const outcome = await startOn(copy, ledger, corruption, file)
        log(`${now}: ${outcome.started ? `started, ${outcome.lost} batches lost` : 'refused'}`)
        report.cases.push({ corruption: corruption.name, ...outcome })
        await rm(copy, { recursive: true })
      }
    }
    await rm(folder, { recursive: true, force: true })
    return report
  } catch (error) {
    throw new Error(`seed ${seed}, ${now}: ${(error as Error).message}; the data is kept in ${folder}`, { cause: error })
  }
}

/** One connection, so that the log holds the batches in the order of their numbers. */
async function killedServer(folder: string): Promise<{ ledger: Ledger; wal: string }> {
  const file = join(folder, 'ledger')
  const ledger = new Ledger(file, BigInt(Date.now()) * 1_000_000n)
  const server = await ServerProcess.spawn({ folder, engine: 'embedded', sql: false, database: UNFLUSHED })
  try {
    await server.ready(READY_LIMIT_MS)
    const options: WriterOptions = { url: server.url, ledger: file, base: String(ledger.base), retry: [], first: 0, connections: 1, pauseMs: 0, limit: BATCHES }
    const writer = spawn(process.execPath, [WRITER, JSON.stringify(options)], { stdio: ['ignore', 'inherit', 'inherit'] })
    await once(writer, 'exit')
  } finally {
    await server.end('SIGKILL')
  }
  await ledger.load()
  if (ledger.acknowledged.size !== BATCHES) throw new Error(`${ledger.acknowledged.size} of ${BATCHES} batches were acknowledged:\n${server.output}`)
  return { ledger, wal: join(folder, 'data', 'wal') }
}

async function startOn(folder: string, ledger: Ledger, corruption: Corruption, file: string): Promise<{ started: boolean; lost: number }> {
  const server = await ServerProcess.spawn({ folder, engine: 'embedded', sql: false, database: UNFLUSHED })
  try {
    try {
      await server.ready(READY_LIMIT_MS)
    } catch (error) {
      if (server.running || corruption.mayLose !== undefined) throw error
      if (!names(server.output, file)) throw new Error(`the refusal does not name ${file} and an offset:\n${server.output}`)
      return { started: false, lost: 0 }
    }
    const { present } = await readBatches(server.url, ledger.base, 0, ledger.next)
    const lost = BATCHES - present.size
    if (lost > (corruption.mayLose ?? 0) && (corruption.mayLose !== undefined || !names(server.output, file))) {
      throw new Error(`${lost} acknowledged batches are missing without a word about ${file}:\n${server.output}`)
    }
    if (corruption.mayLose !== undefined) {
      for (let batch = 0; batch < present.size; batch++) if (!present.has(batch)) throw new Error(`batch ${batch} is missing, though later ones are there`)
    }
    return { started: true, lost }
  } finally {
    if (server.running) await server.end('SIGKILL')
  }
}

function names(output: string, file: string): boolean {
  return output.includes(file) && /offset \d+/.test(output)
}

if (import.meta.main) {
  const [rounds = '3', seed = String(Date.now() % 1_000_000)] = process.argv.slice(2)
  const log = (line: string) => void process.stdout.write(`${line}\n`)
  log(`seed ${seed}`)
  const { cases } = await tornWal({ rounds: Number(rounds), seed: Number(seed), log })
  log(`${cases.length} corrupted logs, ${cases.filter((c) => c.started).length} started, the others refused`)
}
