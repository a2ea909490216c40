/** What another engine has left in a data directory: it is not served by the one that opens it, and whoever changed the engine should know. */
import { join } from 'node:path'
import type { StorageContext } from 'svcdb'
import type { FileSystem } from './log/file-system.ts'

type Calls = Pick<FileSystem, 'existsSync' | 'filesSync' | 'sizeSync'>

/** Of log files: they begin with so many bytes, whether or not records follow. */
const MAGIC_BYTES = 8

const STATE = 'state of plugins (API keys and which are revoked, namespaces, triggers and the like)'

interface Finding {
  what: string
  isThere(dataDir: string, fs: Calls): boolean
}

const points = (what: string, ...folders: string[]): Finding => ({
  what,
  isThere: (dataDir, fs) =>
    folders.some((folder) => filesOf(join(dataDir, folder), fs).some((name) => (fs.sizeSync(join(dataDir, folder, name)) ?? 0) > MAGIC_BYTES)),
})

const ENGINES: { engine: string; findings: Finding[] }[] = [
  {
    engine: 'embedded',
    findings: [
      points('points', 'wal', 'segments'),
      // Whether there is state in a catalog only its store can tell, which the other engine has no need to open.
      { what: `a catalog, which may have ${STATE}`, isThere: (dataDir, fs) => fs.existsSync(join(dataDir, 'catalog', 'data.mdb')) },
    ],
  },
  {
    engine: 'forward',
    findings: [
      points('points that its upstream may not have yet', 'queue'),
      { what: STATE, isThere: (dataDir, fs) => filesOf(join(dataDir, 'state'), fs).some((name) => name.endsWith('.json')) },
    ],
  },
]

/** @param own the engine that opens the directory. */
export function warnOfOtherEngine(own: string, dataDir: string, fs: Calls, log: StorageContext['log']): void {
  for (const { engine, findings } of ENGINES) {
    if (engine === own) continue
    const found = findings.filter(({ isThere }) => isThere(dataDir, fs)).map(({ what }) => what)
    if (found.length === 0) continue
    log.warn(
      { data_dir: dataDir },
      `the data directory holds ${found.join(' and ')}, of the engine "${engine}": "${own}" leaves that as it is and has none of it; start with [database] engine = "${engine}" to have it`,
    )
  }
}

/** None where there is no such folder, or nobody may look into it: a warning is no reason to refuse a start. */
function filesOf(folder: string, fs: Calls): string[] {
  try {
    return fs.filesSync(folder)
  } catch {
    return []
  }
}
