/** `svc export-dashboards DIR`: a copy of what the package brings, for provisioning and as a beginning of one's own. */
import { constants } from 'node:fs'
import { copyFile, mkdir, readdir, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { Command } from 'svcdb'
import { MODELS, RULES } from './library.ts'

export const exportDashboards: Command = {
  name: 'export-dashboards',
  usage: 'DIR',
  summary: 'Copies the dashboards and alert rules that svc brings into a folder',
  async run({ args, out }) {
    const [directory, ...others] = args
    if (directory === undefined || others.length > 0) throw new Error('cannot copy the dashboards: name one folder, as in export-dashboards ./dashboards')
    await makeFolder(resolve(directory))
    for (const [folder, kind] of [
      [MODELS, /\.json$/],
      [RULES, /\.yml$/],
    ] as const) {
      for (const name of (await readdir(folder)).filter((one) => kind.test(one)).sort()) {
        const path = join(directory, name)
        await copyFile(join(folder, name), path, constants.COPYFILE_EXCL).catch((error: NodeJS.ErrnoException) => {
          throw error.code === 'EEXIST' ? new Error(`cannot write "${path}": it is there already; remove it, or name another folder`) : error
        })
        out(`${path}\n`)
      }
    }
    return 0
  },
}

/** With those above it. Node.js's own way tries for ever below a folder that takes none, such as /proc. */
async function makeFolder(path: string): Promise<void> {
  const error = await mkdir(path).then(
    () => undefined,
    (error: NodeJS.ErrnoException) => error,
  )
  if (error === undefined || (await isFolder(path))) return
  const parent = dirname(path)
  if (error.code !== 'ENOENT' || (await isFolder(parent))) throw new Error(`cannot make the folder "${path}": ${error.message}; name one that you may write to`)
  await makeFolder(parent)
  await makeFolder(path)
}

function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )
}
