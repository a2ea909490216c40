/** A volume of a few megabytes, so that a full disk can be had: a tmpfs of its own, where mounting is allowed. */
import { execFileSync, spawnSync } from 'node:child_process'
import { closeSync, mkdirSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs'
import { join } from 'node:path'

const FILLER = 'filler'
const BLOCK = Buffer.alloc(65_536, 1)
const IN_NAMESPACE = 'SVC_MOUNT_NAMESPACE'

export class SmallDisk {
  readonly path: string
  private readonly filler: string

  private constructor(path: string) {
    this.path = path
    this.filler = join(path, FILLER)
  }

  /** @throws Error when this process may not mount. */
  static mount(path: string, mebibytes: number): SmallDisk {
    mkdirSync(path, { recursive: true })
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${mebibytes}m`, 'tmpfs', path], { stdio: ['ignore', 'ignore', 'pipe'] })
    return new SmallDisk(path)
  }

  get free(): number {
    const { bavail, bsize } = statfsSync(this.path)
    return bavail * bsize
  }

  /** Takes all space but `leave` bytes, whoever else is writing meanwhile. */
  fill(leave = 0): void {
    const fd = openSync(this.filler, 'a')
    try {
      while (this.free > leave) writeSync(fd, BLOCK, 0, Math.max(1, Math.min(BLOCK.length, this.free - leave)))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
    } finally {
      closeSync(fd)
    }
  }

  /** Gives the space back. */
  release(): void {
    rmSync(this.filler, { force: true })
  }

  unmount(): void {
    execFileSync('umount', ['-l', this.path])
  }
}

/**
 * Makes sure that this process may mount, if need be by running it once more in a name space of its own.
 * @returns undefined when it may; else the exit code of the other run, or why there is none.
 */
export function mayMount(folder: string): { exitCode: number } | { reason: string } | undefined {
  try {
    SmallDisk.mount(join(folder, 'probe'), 1).unmount()
    return undefined
  } catch (error) {
    if (process.env[IN_NAMESPACE] !== undefined) return { reason: (error as Error).message }
  }
  const probe = spawnSync('unshare', ['-Urm', 'true'])
  if (probe.status !== 0) return { reason: 'neither mounting nor a name space of its own is allowed here' }
  const { status } = spawnSync('unshare', ['-Urm', process.execPath, ...process.argv.slice(1)], {
    stdio: 'inherit',
    env: { ...process.env, [IN_NAMESPACE]: '1' },
  })
  return { exitCode: status ?? 1 }
}
