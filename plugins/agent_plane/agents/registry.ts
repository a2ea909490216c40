/** The agents of a node, by name and by what they provide. */
import type { Agent, AgentRef, Skill } from 'svcdb/agents'
import { canonical } from '../record/canonical.ts'
import { declaredSkill } from './declared-skill.ts'

export class AgentRegistry {
  private readonly byName = new Map<string, Agent>()
  private readonly byCapability = new Map<string, Agent>()
  /** Of all agents, and of none. */
  readonly skills: Map<string, Skill>

  constructor(skills = new Map<string, Skill>()) {
    this.skills = skills
  }

  /** @throws Error for a name or a capability that is taken. */
  add(agent: Agent): void {
    const { name } = agent.manifest.metadata
    const refuse = (why: string) => new Error(`cannot take agent "${name}": ${why}`)
    if (this.byName.has(name)) throw refuse('there is one of this name')
    const { provides } = agent.manifest.spec.capabilities
    const taken = provides.find((capability) => this.skills.has(capability))
    if (taken !== undefined) throw refuse(`there is a skill "${taken}" already`)
    this.byName.set(name, agent)
    for (const capability of provides) {
      this.byCapability.set(capability, agent)
      this.skills.set(capability, agent.skills.find((skill) => skill.capability === capability) ?? declaredSkill(agent, capability))
    }
  }

  get all(): readonly Agent[] {
    return [...this.byName.values()]
  }

  /** The agent that provides a capability; undefined for a skill of none. */
  of(capability: string): Agent | undefined {
    return this.byCapability.get(capability)
  }

  /** JSON Schema of the arguments of a tool: as the named agent has it, or else as all have it that do; undefined where none does, and where they differ. */
  argumentsOf(tool: string, agent: string | undefined): object | undefined {
    const having = (agents: readonly Agent[]) =>
      agents.flatMap(({ manifest }) => (manifest.spec.tools ?? []).filter(({ ref }) => ref === tool)).map((one) => one.arguments)
    const [own] = having(this.all.filter(({ manifest }) => manifest.metadata.name === agent))
    const [first, ...others] = having(this.all)
    return own ?? (others.every((one) => canonical(one) === canonical(first)) ? first : undefined)
  }

  governing(capability: string): AgentRef | undefined {
    const agent = this.byCapability.get(capability)
    if (agent === undefined) return undefined
    const { name, version } = agent.manifest.metadata
    return { name, version, digest: agent.digest }
  }
}
