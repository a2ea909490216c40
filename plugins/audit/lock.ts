/**
 * One server per trail. The lock is a symbolic link, made in one step and without a block of its own, so that a full disk does not matter; its
 * target names the holder: pid and, where /proc tells it, the start time of the process, so that a reused pid does not count.
 */
import { lstatSync, mkdirSync, readFileSync, readlinkSync, renameSync, symlinkSync, unlinkSync } from 'node:fs'
import { dirname } from 'node:path'
import { SvcError } from '../../kernel/errors.ts'

export class TrailLock {
  private readonly path: string
  private held = false

  constructor(trail: string) {
    this.path = `${trail}.lock`
  }

  /** @throws CONFIG_ERROR while a process that runs holds it. */
  acquire(): void {
    mkdirSync(dirname(this.path), { recursive: true, mode: 0o700 })
    const own = nameOf(process.pid)
    for (let tries = 0; tries < 3; tries++) {
      try {
        symlinkSync(own, this.path)
        this.held = true
        return
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      }
      const holder = read(this.path)
      if (holder !== undefined && runs(holder)) {
        throw new SvcError(
          'CONFIG_ERROR',
          `cannot use audit.path "${this.path.slice(0, -'.lock'.length)}": process ${holder.pid} writes it; stop it, or give each server a trail of its own`,
        )
      }
      this.removeStale()
    }
    throw new SvcError('CONFIG_ERROR', `cannot lock the audit trail: "${this.path}" changes hands, or is no lock; start one server only, or remove it`)
  }

  release(): void {
    if (!this.held) return
    this.held = false
    // Somebody may have removed it, and another server taken it.
    const holder = read(this.path)
    if (holder !== undefined && `${holder.pid}:${holder.started}` === nameOf(process.pid)) unlinkSync(this.path)
  }

  /** Moves it aside under a name of our own: of two who try, one finds it gone. */
  private removeStale(): void {
    const aside = `${this.path}.${process.pid}`
    try {
      if (!lstatSync(this.path).isSymbolicLink()) return
      renameSync(this.path, aside)
      const moved = read(aside)
      // Somebody else took it in between, and runs: it stays theirs.
      if (moved !== undefined && runs(moved)) renameSync(aside, this.path)
      else unlinkSync(aside)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
  }
}

interface Holder {
  pid: number
  started: string
}

function read(path: string): Holder | undefined {
  try {
    const [, pid, started] = /^(\d+):(\d*)$/.exec(readlinkSync(path)) ?? []
    return pid === undefined ? undefined : { pid: Number(pid), started }
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

const nameOf = (pid: number): string => `${pid}:${startTime(pid)}`

/** Clock ticks since boot at which a process began; '' where the system does not tell. */
function startTime(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[19] ?? ''
  } catch {
    return ''
  }
}
