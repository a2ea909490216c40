/**
 * One process at a time. Two locks: that of the operating system (os-lock.ts), on an empty file beside, keeps others out wherever they run. A symbolic
 * link names the holder, for the message and for processes of versions that know only the link: pid and, where /proc shows it, the start time of the
 * process, so that a reused pid does not count. The link is made in one step and without a block of its own, so that a full disk does not matter.
 */
import { lstatSync, readFileSync, readlinkSync, renameSync, symlinkSync, unlinkSync } from 'node:fs'
import { resolve } from 'node:path'
import { SvcError } from '../errors/index.ts'
import { OsLock } from './os-lock.ts'

interface Holder {
  pid: number
  started: string
}

/** What is said where a lock cannot be had. */
export interface LockTexts {
  /** While another holds it. @param holder "process 42". */
  held(holder: string): string
  /** For one that changes hands again and again, or is no lock. */
  unclear: string
  /** Where the operating system gives no lock. */
  unlockable(cause: string): string
}

const HOLDER = /^\{"pid":\d+,"started":"\d*"\}$/
/** A plain file in the place of a lock is one of an earlier version; a power cut may have left none of its bytes, or zeros. */
const CUT = /^\0*$/
const MAX_FILE_BYTES = 256

/** A lock that one process at a time has, until it is released or the process ends, however it ends. */
export class ProcessLock {
  private readonly path: string
  private readonly texts: LockTexts
  private readonly os: OsLock
  private held = false

  /** @param path of the link; its folder must be there. The file of the operating system's lock is `<path>.os`. */
  constructor(path: string, texts: LockTexts) {
    this.path = path
    this.texts = texts
    this.os = new OsLock(resolve(`${path}.os`))
  }

  /** @throws CONFIG_ERROR while another holds it, and where there can be no lock; NodeJS.ErrnoException. */
  acquire(): void {
    if (!this.acquireOs()) throw new SvcError('CONFIG_ERROR', this.texts.held(this.nameOfOther()))
    try {
      this.link()
    } catch (error) {
      this.os.release()
      throw error
    }
  }

  /** Safe twice, and without `acquire`. */
  release(): void {
    if (!this.held) return
    this.held = false
    // Somebody may have removed it, and another process taken it.
    if (textOf(this.path) === nameOf(process.pid)) unlinkSync(this.path)
    this.os.release()
  }

  private acquireOs(): boolean {
    try {
      return this.os.acquire()
    } catch (error) {
      if ((error as NodeJS.ErrnoException).syscall !== undefined) throw error
      throw new SvcError('CONFIG_ERROR', this.texts.unlockable((error as Error).message), { cause: error })
    }
  }

  /** Who the operating system says is there, as far as it can be seen from here. */
  private nameOfOther(): string {
    const holder = holderOf(this.path)
    if (holder === undefined) return 'another process'
    return runs(holder) ? `process ${holder.pid}` : `process ${holder.pid} of another container or machine`
  }

  private link(): void {
    const own = nameOf(process.pid)
    for (let tries = 0; tries < 3; tries++) {
      try {
        symlinkSync(own, this.path)
        this.held = true
        return
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      }
      const holder = holderOf(this.path)
      if (holder !== undefined && runs(holder)) throw new SvcError('CONFIG_ERROR', this.texts.held(`process ${holder.pid}`))
      this.removeStale()
    }
    throw new SvcError('CONFIG_ERROR', this.texts.unclear)
  }

  /** Moves it aside under a name of our own: of two who try, one finds it gone. */
  private removeStale(): void {
    const aside = `${this.path}.${process.pid}`
    try {
      if (!lstatSync(this.path).isSymbolicLink() && !isLock(textOf(this.path))) return
      renameSync(this.path, aside)
      const moved = holderOf(aside)
      // One of an older version took it in between, and runs: it stays theirs.
      if (moved !== undefined && runs(moved)) renameSync(aside, this.path)
      else unlinkSync(aside)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
  }
}

function isLock(text: string | undefined): boolean {
  return text !== undefined && (HOLDER.test(text) || CUT.test(text))
}

function holderOf(path: string): Holder | undefined {
  const text = textOf(path)
  return text !== undefined && HOLDER.test(text) ? (JSON.parse(text) as Holder) : undefined
}

function textOf(path: string): string | undefined {
  try {
    const status = lstatSync(path)
    if (status.isSymbolicLink()) return readlinkSync(path)
    return status.isFile() && status.size <= MAX_FILE_BYTES ? readFileSync(path, 'utf8') : undefined
  } catch {
    return undefined
  }
}

function runs({ pid, started }: Holder): boolean {
  try {
    process.kill(pid, 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
  }
  const now = startTime(pid)
  return now === '' || started === '' || now === started
}

function nameOf(pid: number): string {
  return JSON.stringify({ pid, started: startTime(pid) } satisfies Holder)
}

/** Clock ticks since boot at which a process began; '' where the system does not say. */
function startTime(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[19] ?? ''
  } catch {
    return ''
  }
}
