import type { Command } from 'svcdb'

export const openapiCommand: Command = {
  name: 'plane',
  verbs: ['openapi'],
  sharedWith: ['agent_plane'],
  usage: 'openapi',
  summary: 'Prints the OpenAPI 3.1 document of the operator API',
  flags: { server: { description: 'What its paths are relative to; default /api/v1/plane' } },
  usageCode: 2,
  // Nothing of the API is loaded for a command line that does not name it.
  async run({ args: [, more], flags, out, err }) {
    if (more !== undefined) {
      err(`svc: cannot use argument "${more}": plane openapi takes flags only\n`)
      return 2
    }
    const [{ openapiDocument }, { OPERATIONS }] = await Promise.all([import('./openapi.ts'), import('./routes/index.ts')])
    out(`${JSON.stringify(openapiDocument(OPERATIONS, flags.server), null, 2)}\n`)
    return 0
  },
}
