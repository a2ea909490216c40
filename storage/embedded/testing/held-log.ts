/** A log whose writes can be held up, and then go on or find no space; for tests of what is on its way meanwhile. */
import { type FileSystem, realFileSystem } from '../../common/log/file-system.ts'

export class HeldLog {
  readonly fs: FileSystem
  private held: ((failed: boolean) => void)[] = []
  private holding = false
  private reach: () => void = () => {}

  constructor() {
    this.fs = {
      ...realFileSystem,
      write: (fd, bytes, offset, length, position, done) => {
        if (!this.holding) return realFileSystem.write(fd, bytes, offset, length, position, done)
        this.held.push((failed) => {
          if (failed) done(Object.assign(new Error('no space left on device'), { code: 'ENOSPC' }), 0)
          else realFileSystem.write(fd, bytes, offset, length, position, done)
        })
        this.reach()
      },
    }
  }

  /** Holds writes from now on. @returns what resolves when there is one. */
  hold(): Promise<void> {
    this.holding = true
    return new Promise((resolve) => (this.reach = resolve))
  }

  /** What is held goes on; holds what comes next. @returns as `hold`. */
  step(): Promise<void> {
    this.end(false)
    return this.hold()
  }

  succeed(): void {
    this.end(false)
  }

  /** What is held finds no space, and with it what waits behind it. */
  fail(): void {
    this.end(true)
  }

  private end(failed: boolean): void {
    this.holding = false
    for (const go of this.held.splice(0)) go(failed)
  }
}
