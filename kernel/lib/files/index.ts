/** Files that survive a crash: replaced whole, locked against other processes, checksummed, read with a bound. */
export { type FileCalls, makeFolder, realFileCalls, replaceFile, syncFolder } from './atomic-file.ts'
export { readBounded } from './bounded-file.ts'
export { crc32c } from './crc32c.ts'
export { type LockTexts, ProcessLock } from './process-lock.ts'
