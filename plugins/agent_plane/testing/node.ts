/** A node with the plane and the skills of a test. */

import { definePlugin, type Plugin } from 'svcdb'
import { AGENTS, type Agent, type AgentPlane, type Skill } from 'svcdb/agents'
import { type BootOptions, boot, type TestNode } from 'svcdb/testkit'
import type { Test } from 'tap'

const PATH = '/api/v1/admin/agents/runs'

let handed = 0

/** A plugin that hands out a service of the node, from its setup on. */
export function handOut<T>(service: string): { plugin: Plugin; service(): T } {
  const held = {} as { service: T }
  const plugin = definePlugin({
    id: `hand_out_${++handed}`,
    summary: 'Hands out a service',
    stability: 'experimental',
    requires: [service],
    setup: (svc) => void (held.service = svc.use<T>(service)),
  })
  return { plugin, service: () => held.service }
}

export interface PlaneNode {
  node: TestNode
  plane: AgentPlane
  /** By HTTP, until it rests. */
  run(capability: string, input: unknown, key?: string): Promise<Record<string, unknown> & { run: string; status: string }>
  show(run: string): Promise<{ status: number; body: Record<string, unknown> }>
}

export async function start(t: Test, skills: readonly Skill[], options: BootOptions & { agents?: readonly Agent[] } = {}): Promise<PlaneNode> {
  const held: { plane?: AgentPlane } = {}
  const agent = definePlugin({
    id: 'agent_of_test',
    summary: 'Skills of a test',
    stability: 'experimental',
    requires: [AGENTS],
    setup(svc) {
      held.plane = svc.use<AgentPlane>(AGENTS)
      for (const skill of skills) held.plane.skill(skill)
      for (const one of options.agents ?? []) held.plane.agent(one)
    },
  })
  const { config, plugins = [], agents: _, ...more } = options
  const node = await boot({ plugins: ['agent_plane', agent, ...plugins], config: { agent_plane: { sweep_interval_secs: 0.1 }, ...config }, ...more })
  t.teardown(() => node.stop())
  const plane = held.plane as AgentPlane
  const show: PlaneNode['show'] = async (run) => {
    const answer = await node.inject(`${PATH}/${run}`)
    return { status: answer.statusCode, body: answer.json() }
  }
  return {
    node,
    plane,
    show,
    async run(capability, input, key) {
      const payload = { capability, input, ...(key === undefined ? {} : { idempotency_key: key }) }
      const answer = await node.inject({ method: 'POST', url: PATH, payload })
      if (answer.statusCode !== 202) throw new Error(answer.body)
      const { run } = answer.json() as { run: string }
      await plane.settled(run)
      return (await show(run)).body as Awaited<ReturnType<PlaneNode['run']>>
    },
  }
}
