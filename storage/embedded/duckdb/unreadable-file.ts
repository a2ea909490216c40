/** Errors of DuckDB about a segment's file that is gone, belongs to somebody else, is damaged, or for which there is no handle: never the caller's, whatever DuckDB calls them. */
import { SvcError, tooManyFiles } from 'svcdb/lib/errors'

/** Only statements of ours name files. The excerpt of a statement may end within the name. */
const FILE = /\b(segments\/shard_-?\d+(?:\/\d+\.parquet)?)/
const CAUSES: readonly [RegExp, string][] = [
  [/^IO Error: .*(?:Permission denied|Operation not permitted)/i, 'the user that the server runs as may not read it'],
  [/^IO Error: (?:No files found that match|.*No such file)/i, 'the file is not there'],
  [
    /^(?:IO|Invalid Input|Invalid|TProtocolException|Serialization) Error: .*(?:No magic bytes|too small to be a Parquet|not a Parquet|TProtocol|footer|Thrift|decompress|corrupt|truncated|end of (?:file|buffer)|Not enough bytes|Could not read)/i,
    'the file is damaged',
  ],
]

/** @returns undefined when the error is about something else. */
export function unreadableFile(error: Error): SvcError | undefined {
  const { message } = error
  if (/^IO Error: .*Too many open files/i.test(message)) return tooManyFiles(error)
  const file = FILE.exec(message)
  const cause = file === null ? undefined : CAUSES.find(([form]) => form.test(message))
  if (file === null || cause === undefined) return undefined
  return new SvcError(
    'DATABASE_ERROR',
    `cannot read segment file "${file[1]}": ${cause[1]}; see to whom the files of the data directory belong, or stop the server, restore the file from a backup, and start again`,
    { cause: error },
  )
}
