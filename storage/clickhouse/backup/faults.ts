/** What ClickHouse says of a BACKUP or RESTORE that has failed, as errors of the storage interface. */
import { SvcError } from 'svcdb/lib/errors'
import { CODES } from '../client.ts'

const MAX_TEXT = 400
/** Of its configuration and the user's grants: BAD_ARGUMENTS (a disk that is not allowed), INVALID_CONFIG_PARAMETER, UNKNOWN_DISK, ACCESS_DENIED. */
const SET_UP = new Set(['36', '318', '479', '497'])
/** BACKUP_ALREADY_EXISTS; CONCURRENT_ACCESS_NOT_SUPPORTED. */
const EXISTS = '598'
const AT_ONCE = '587'
const NOT_FOUND = '599'

/** An error in ClickHouse's words. */
export class OperationFault extends Error {
  /** Its number; "" where the text has none. */
  readonly code: string

  /** @param told of system.backups: with its code, and a stack trace. */
  constructor(told: string) {
    const [text] = told.split(', Stack trace', 1)
    super(text.replace(/^Code: \d+\. DB::(\w*)Exception: /, '').slice(0, MAX_TEXT))
    this.code = /^Code: (\d+)/.exec(text)?.[1] ?? ''
  }
}

/** @param what "make backup "/x"". @param made a fault of what is being made; otherwise of a backup that is read. */
export function backupFault(what: string, { code, message }: OperationFault, made: boolean): SvcError {
  const fault = (kind: ConstructorParameters<typeof SvcError>[0], cause: string): SvcError => new SvcError(kind, `cannot ${what}: ${cause}`)
  if (code === EXISTS) return fault('CONFLICT', 'the disk has something of that name, which ClickHouse does not replace; choose another name')
  if (code === NOT_FOUND) return fault('INVALID_REQUEST', 'the disk has no backup of that name, or one that was not finished')
  if (code === AT_ONCE) return fault('CONFLICT', 'ClickHouse is at another one and takes one at a time; retry when it has ended')
  if (/no space left|not enough space/i.test(message)) return fault('STORAGE_FULL', `${message}; make room and send it again`)
  if (SET_UP.has(code))
    return fault('INVALID_REQUEST', `${message}; see database.clickhouse.backup_disk, backups.allowed_disk of ClickHouse and the grants of its user`)
  const known = CODES.get(code)
  if (known !== undefined) return fault(known, message)
  return made ? fault('DATABASE_ERROR', message) : fault('INVALID_REQUEST', `the backup is not whole, or cannot be read: ${message}`)
}
