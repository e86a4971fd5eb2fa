import { Sign } from '../../shapes.js';
import { plain, show } from '../../text.js';
import { html } from '../../vendor/preact-htm.js';
import { CLASS } from '../../words.js';
import { Section, Status, useList } from './section.js';

export function Tools({ ctx }) {
  const list = useList(ctx, '/tools');
  return html`<${Section} name="Tools" from="[tools], [[mcp.servers]], POST /http-tools" list=${list}
      heads=${['', 'Tool', 'Class', 'Idempotent', 'Risk']}
    empty="No tool is offered.">
    ${list.items?.map((one) => html`<tr key=${one.name}><${Status} shape="completed" word="offered" /><td class="mono"
        title=${plain(one.description)}>${show(one.name)}</td>
      <td class=${one.class === 'irreversible' ? 'c-ask nowrap' : ''}
          title=${CLASS[one.class] ?? null}>${one.class === 'irreversible' && html`<${Sign} name="once" /> `}${show(one.class)}</td>
      <td>${one.idempotent ? 'yes' : 'no'}</td><td>${one.riskLevel ? show(one.riskLevel) : '–'}</td></tr>`)}</${Section}>`;
}
