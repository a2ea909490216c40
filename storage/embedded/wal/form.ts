/** What the files of the write-ahead log are called, and begin with. */
import type { LogForm } from '../../common/log/log.ts'
import { walFileName } from '../paths.ts'

export const FILE_MAGIC = new TextEncoder().encode('SVCWAL01')
export const WAL_FORM: LogForm = { magic: FILE_MAGIC, fileName: walFileName }
