/**
 * One process per data directory. The LOCK file names its holder (pid and, where /proc tells it, the start time of the process, so that a
 * reused pid does not count); a holder that no longer runs has lost it.
 */
import { linkSync, lstatSync, readFileSync, readlinkSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { SvcError } from '../../kernel/errors.ts'

interface Holder {
  pid: number
  started: string
}

export class DirectoryLock {
  private readonly path: string
  private held = false

  constructor(path: string) {
    this.path = path
  }

  acquire(): void {
    const own = `${this.path}.${process.pid}`
    writeHolder(own, { pid: process.pid, started: startTime(process.pid) })
    try {
      for (let tries = 0; tries < 3; tries++) {
        try {
          linkSync(own, this.path) // atomic: fails when the file exists
          this.held = true
          return
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
        }
        const holder = read(this.path)
        if (holder !== undefined && runs(holder)) {
          throw new SvcError(
            'CONFIG_ERROR',
            `cannot open data directory: process ${holder.pid} has it open ("${this.path}"); stop it or choose another data_dir`,
          )
        }
        // The holder is gone. Move its file aside under our name: of two who try, one finds it moved.
        try {
          renameSync(this.path, `${own}.stale`)
          const moved = read(`${own}.stale`)
          // Somebody else replaced it in between and runs: put theirs back.
          if (moved !== undefined && runs(moved)) linkSync(`${own}.stale`, this.path)
          unlinkSync(`${own}.stale`)
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
        }
      }
      throw new SvcError('CONFIG_ERROR', `cannot open data directory: its lock "${this.path}" changes hands; start one server only`)
    } finally {
      unlinkSync(own)
    }
  }

  release(): void {
    if (!this.held) return
    this.held = false
    unlinkSync(this.path)
  }
}

/** On a full disk as the target of a symbolic link, which takes no block: a node that cannot write must still start to be read. */
function writeHolder(path: string, holder: Holder): void {
  const text = JSON.stringify(holder)
  try {
    writeFileSync(path, text)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'ENOSPC' && code !== 'EDQUOT') throw error
    rmSync(path, { force: true })
    symlinkSync(text, path)
  }
}

function read(path: string): Holder | undefined {
  try {
    return JSON.parse(lstatSync(path).isSymbolicLink() ? readlinkSync(path) : readFileSync(path, 'utf8')) as Holder
  } catch {
    return undefined
  }
}

function runs(holder: Holder): boolean {
  if (holder.pid === process.pid) return holder.started === startTime(process.pid)
  try {
    process.kill(holder.pid, 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
  }
  const started = startTime(holder.pid)
  return started === '' || holder.started === '' || started === holder.started
}

/** Clock ticks since boot at which a process began; '' where the system does not tell. */
function startTime(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[19] ?? ''
  } catch {
    return ''
  }
}
