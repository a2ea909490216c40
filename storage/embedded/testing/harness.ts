/** An engine over a temporary directory, and points in and out of it as plain objects, for the engine's own tests. */
import { closeSync, copyFileSync, cpSync, existsSync, mkdtempSync, openSync, readSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { StorageEngine, WriteOptions, WriteResult } from 'svcdb'
import { type FileSystem, realFileSystem } from '../../common/log/file-system.ts'
import { testContext } from '../../conformance/index.ts'
import { EmbeddedEngine } from '../engine.ts'

export const NOW_MS = Date.UTC(2024, 0, 1, 12)
export const NOW = BigInt(NOW_MS) * 1_000_000n

export function tempDir(): string {
  return mkdtempSync(join(tmpdir(), 'svc-embedded-'))
}

/**
 * A copy of a data directory as a crash at this moment would leave it (the page cache survives a killed process). While it runs nothing of the engine's
 * main thread does: no file goes, no commit begins. Its other threads may give an unfinished file its name, and LMDB's may end commits that have begun.
 */
export function crashCopy(dir: string, copy: string = tempDir()): string {
  cpSync(dir, copy, { recursive: true, filter: (path) => !/LOCK(\.os)?$|\.tmp$|catalog\/data\.mdb$/.test(path) })
  const catalog = join(dir, 'catalog', 'data.mdb')
  if (existsSync(catalog)) copyBetweenCommits(catalog, join(copy, 'catalog', 'data.mdb'))
  return copy
}

/** A copy during which LMDB ends a commit holds pages of two states, which no crash leaves: it is made again. */
function copyBetweenCommits(file: string, copy: string): void {
  for (let before = metaPages(file); ; ) {
    copyFileSync(file, copy)
    const after = metaPages(file)
    if (after.equals(before)) return
    before = after
  }
}

/** The first two pages of an LMDB file: each commit writes one of them, last. */
function metaPages(file: string): Buffer {
  const pages = Buffer.alloc(2 * 4096)
  const fd = openSync(file, 'r')
  try {
    return pages.subarray(0, readSync(fd, pages, 0, pages.length, 0))
  } finally {
    closeSync(fd)
  }
}

export async function openEngine(dir: string, config: Record<string, unknown> = {}, fs: FileSystem = realFileSystem): Promise<EmbeddedEngine> {
  const engine = new EmbeddedEngine(
    testContext({ ...config, data_dir: dir }, () => NOW_MS),
    { fs },
  )
  await engine.open()
  return engine
}

export async function closeAndRemove(engine: StorageEngine, ...dirs: string[]): Promise<void> {
  await engine.close()
  for (const dir of dirs) rmSync(dir, { recursive: true, force: true })
}

/** Writes one point with float fields. */
export function writeFloat(
  engine: StorageEngine,
  measurement: string,
  host: string,
  time: bigint,
  fields: Record<string, number>,
  options?: WriteOptions,
): Promise<WriteResult> {
  const batch = engine.batch('')
  const ref = engine.resolver.measurement('', measurement)
  const series = engine.resolver.series(ref, ['host', host])
  const table = batch.table(ref)
  const row = table.addRow(series, Number(BigInt.asIntN(32, time)), Number(time >> 32n), 0)
  for (const [name, value] of Object.entries(fields)) table.column(name, 'float64').setF64(row, value)
  return engine.write(batch, options)
}

/** All rows of a measurement, one text each: `host time field=value ...`, sorted. */
export async function rowsOf(engine: StorageEngine, measurement: string): Promise<string[]> {
  if (!(await engine.measurements('')).some(({ name }) => name === measurement)) return []
  const rows: string[] = []
  for await (const { tags, times, columns } of engine.scan({ namespace: '', measurement })) {
    for (let i = 0; i < times.length; i++) {
      const values = columns.flatMap(({ name, values, validity }) => (validity !== undefined && validity[i] === 0 ? [] : [`${name}=${values[i]}`]))
      rows.push(`${tags.host} ${times[i]} ${values.join(' ')}`)
    }
  }
  return rows.sort()
}
