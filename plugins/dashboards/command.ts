/** `svc export-dashboards DIR`: a copy of what the package brings, for provisioning and as a beginning of one's own. */
import { constants } from 'node:fs'
import { copyFile, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Command } from 'svcdb'
import { MODELS, RULES } from './library.ts'

export const exportDashboards: Command = {
  name: 'export-dashboards',
  usage: 'DIR',
  summary: 'Copies the dashboards and alert rules that svc brings into a folder',
  async run({ args, out }) {
    const [directory, ...others] = args
    if (directory === undefined || others.length > 0) throw new Error('cannot copy the dashboards: name one folder, as in export-dashboards ./dashboards')
    await mkdir(directory, { recursive: true })
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
