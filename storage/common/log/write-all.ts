/** Writes that the disk takes in parts, or that a signal has interrupted, are carried on. */
import type { FileSystem } from './file-system.ts'

/** Writes all bytes from `position` of the file on. @param done with ENOSPC when the disk takes nothing. */
export function writeAll(fs: Pick<FileSystem, 'write'>, fd: number, bytes: Uint8Array, position: number, done: (error: Error | null) => void): void {
  const from = (start: number): void =>
    fs.write(fd, bytes, start, bytes.length - start, position + start, (error, written) => {
      if (error !== null) {
        const { code } = error as NodeJS.ErrnoException
        return code === 'EINTR' || code === 'EAGAIN' ? from(start) : done(error)
      }
      if (written === 0) return done(noRoom())
      if (start + written < bytes.length) return from(start + written)
      done(null)
    })
  from(0)
}

/** The same in one go. @param done with how many bytes the disk took, fewer than there are where it took a part only. */
export function writeOnce(
  fs: Pick<FileSystem, 'write'>,
  fd: number,
  bytes: Uint8Array,
  position: number,
  done: (error: Error | null, written: number) => void,
): void {
  fs.write(fd, bytes, 0, bytes.length, position, (error, written) => {
    const code = (error as NodeJS.ErrnoException | null)?.code
    if (code === 'EINTR' || code === 'EAGAIN') writeOnce(fs, fd, bytes, position, done)
    else done(error ?? (written === 0 ? noRoom() : null), written)
  })
}

/** A disk that takes no byte of a write is full. */
export const noRoom = (): Error => Object.assign(new Error('the disk took no bytes'), { code: 'ENOSPC' })
