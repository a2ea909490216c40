/** Lives of the log on a disk that forgets and fails: what was acknowledged is there, what was refused is not, and no start is refused. */

import type { SvcError } from 'svcdb/lib/errors'
import { type Random, seeded } from 'svcdb/lib/random'
import t from 'tap'
import type { FsyncPolicy } from '../../common/log/log.ts'
import { walFileName } from '../paths.ts'
import { failure, LogDisk } from '../testing/log-disk.ts'
import { LogProcess, randomPolicy } from '../testing/log-process.ts'
import { FILE_MAGIC } from './form.ts'

const ROUNDS = Number(process.env.SVC_WAL_ROUNDS ?? 60)
const LIVES = 6

t.setTimeout(600_000)

/** One data directory from life to life. */
class History {
  private readonly random: Random
  private readonly disk: LogDisk
  private sequence = 0
  private floor = 1
  /** Records up to this one are in segments. */
  private flushed = 0
  /** What the catalog has noted of the files. */
  private readonly note = { newest: 0, sizes: new Map<number, number>() }
  /** Sequences that have to be found, and those that must not. */
  private must = new Set<number>()
  private readonly never = new Set<number>()

  constructor(random: Random) {
    this.random = random
    this.disk = new LogDisk(random)
  }

  async run(): Promise<void> {
    for (let life = 0; life < LIVES; life++) await this.life()
  }

  private async life(): Promise<void> {
    const policy = randomPolicy(this.random)
    const faulty = this.random() < 0.5
    if (faulty && this.random() < 0.3) await this.failingStart(policy)
    const process = await this.start(policy)
    if (faulty) this.failSometimes(0.04)
    for (let steps = this.below(150); steps > 0; steps--) {
      const what = this.random()
      if (what < 0.25) process.append(++this.sequence, this.below(this.random() < 0.9 ? 40 : 700))
      else if (what < 0.28) void process.rotate()
      else if (what < 0.32) this.disk.tick()
      else {
        this.disk.step()
        await Promise.resolve()
      }
    }
    const closed = this.random() < 0.3 && (await this.closes(process))
    await this.end(process, policy, closed)
  }

  private async end(process: LogProcess, policy: FsyncPolicy, closed: boolean): Promise<void> {
    const { outcomes, applied, durable } = process
    const cut = this.random() < 0.6
    this.disk.fault = () => undefined
    for (const sequence of closed || !cut || policy.kind !== 'periodic' ? applied : durable) this.must.add(sequence)
    // Of unknown outcome is only what OVERLOADED answers, and what was not answered.
    for (const [sequence, outcome] of outcomes) if (outcome instanceof Error && (outcome as SvcError).code !== 'OVERLOADED') this.never.add(sequence)
    if (cut) this.disk.powerCut()
    else this.disk.kill()
    const found = new Set(await this.recovered(new LogProcess(this.disk, policy)))
    this.disk.kill()
    const possible = [...outcomes.keys()].filter((sequence) => !this.never.has(sequence) && sequence > this.flushed)
    const missing = possible.findIndex((sequence) => outcomes.get(sequence) === 'applied' && !found.has(sequence))
    const behind = missing < 0 ? undefined : possible.slice(missing).find((sequence) => found.has(sequence))
    if (behind !== undefined) throw new Error(`${behind} is there, ${possible[missing]} before it is not`)
    for (const sequence of possible) if (!found.has(sequence)) this.never.add(sequence)
  }

  private async start(policy: FsyncPolicy): Promise<LogProcess> {
    const process: LogProcess = new LogProcess(this.disk, policy, (file) => this.opened(file, process))
    await this.recovered(process)
    return process
  }

  /** A start that may fail, but never for what the files hold. */
  private async failingStart(policy: FsyncPolicy): Promise<void> {
    this.failSometimes(0.2)
    const cause = await new LogProcess(this.disk, policy).start(this.floor).then(
      () => undefined,
      (error: Error) => error,
    )
    if (cause !== undefined && / at offset /.test(cause.message)) throw cause
    this.disk.fault = () => undefined
    if (this.random() < 0.5) this.disk.powerCut()
    else this.disk.kill()
  }

  private async recovered(process: LogProcess): Promise<number[]> {
    // As LogNotes does.
    const sizeOf = (file: number): number | undefined => this.disk.files.get(walFileName(file))?.length
    for (const [file, size] of this.note.sizes)
      if (file >= this.floor && sizeOf(file) !== size) throw new Error(`file ${file} has ${sizeOf(file)} bytes, noted were ${size}`)
    const { newest } = this.note
    if (newest >= this.floor && (sizeOf(newest) ?? 0) < FILE_MAGIC.length) throw new Error(`file ${newest} was noted and is gone`)
    const must = [...this.must].filter((sequence) => sequence > this.flushed)
    const found = await process.start(this.floor)
    for (const sequence of must) if (!found.includes(sequence)) throw new Error(`${sequence} was durable and is gone; found: ${found}`)
    for (const sequence of found) if (this.never.has(sequence)) throw new Error(`${sequence} is back`)
    this.must = new Set(found)
    return found
  }

  private opened(file: number, { applied, durable }: LogProcess): void {
    for (const sequence of applied) durable.add(sequence)
    const before = this.disk.files.get(walFileName(file - 1))
    if (this.random() < 0.7) {
      if (before !== undefined) this.note.sizes.set(file - 1, before.length)
      this.note.newest = file
    }
    if (applied.length > 0 && this.random() < 0.15) this.flush(file, Math.max(...applied))
  }

  /** All records of the files before this one are in segments. */
  private flush(file: number, sequence: number): void {
    this.floor = file
    this.flushed = sequence
    const { fault } = this.disk
    this.disk.fault = () => undefined
    for (const name of this.disk.files.keys()) if (name < walFileName(file) && this.random() < 0.8) this.disk.fs.unlinkSync(name)
    this.disk.fault = fault
  }

  private failSometimes(chance: number): void {
    const codes = ['ENOSPC', 'EIO', 'EMFILE', 'EDQUOT']
    this.disk.fault = () => (this.random() < chance ? failure(codes[this.below(codes.length)]) : undefined)
  }

  private closes(process: LogProcess): Promise<boolean> {
    return this.disk.run(process.wal.close()).then(
      () => true,
      () => false,
    )
  }

  private below(n: number): number {
    return Math.floor(this.random() * n)
  }
}

t.test('random lives under every policy, with faults, kills and power cuts', async (t) => {
  const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
  t.comment(`SVC_SEED=${seed}`)
  for (let round = 0; round < ROUNDS; round++) {
    try {
      await new History(seeded(seed + round)).run()
    } catch (error) {
      return t.fail(`SVC_SEED=${seed + round} SVC_WAL_ROUNDS=1: ${(error as Error).stack}`)
    }
  }
  t.pass(`${ROUNDS} histories of ${LIVES} lives`)
})
