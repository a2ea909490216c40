/** Files that survive a crash: replaced whole, locked against other processes, checksummed, read with a bound or by lines. */
export { type FileCalls, makeFolder, realFileCalls, replaceFile, syncFolder } from './atomic-file.ts'
export { readBounded } from './bounded-file.ts'
export { crc32c } from './crc32c.ts'
export { fileLines } from './file-lines.ts'
export { makeDirectory, makeDirectorySync } from './make-directory.ts'
export { type LockTexts, ProcessLock } from './process-lock.ts'
