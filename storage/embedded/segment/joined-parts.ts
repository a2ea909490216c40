/** A segment file out of parts that are written one after the other: what DuckDB holds of a row group is the part's. */
import { rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { ParquetJoiner } from '../../common/parquet/parquet-joiner.ts'

/**
 * Each part becomes a file in the scratch space, whose row groups are copied to the output.
 * @param path must not exist.
 * @param write a part. @returns parts that are written in its place, in order; undefined once it is written.
 * @returns rows.
 */
export async function writeJoined<Part>(
  parts: readonly Part[],
  path: string,
  tempDir: string,
  write: (part: Part, path: string) => Promise<readonly Part[] | undefined>,
): Promise<number> {
  const scratch = join(tempDir, `${basename(path)}.part`)
  const joiner = await ParquetJoiner.create(path)
  try {
    for (let left = [...parts]; left.length > 0; ) {
      const [part, ...rest] = left
      const instead = await write(part, scratch)
      left = instead === undefined ? rest : [...instead, ...rest]
      if (instead === undefined) await joiner.append(scratch, Number.POSITIVE_INFINITY)
      await rm(scratch, { force: true })
    }
    await joiner.finish()
    return joiner.rows
  } finally {
    await joiner.close()
    await rm(scratch, { force: true })
  }
}
