// A component that renders only when one of its props is another.

import { Component, h } from '../vendor/preact-htm.js';

export function pure(View) {
  return class extends Component {
    shouldComponentUpdate(next) {
      const had = this.props;
      const names = Object.keys(next);
      return names.length !== Object.keys(had).length || names.some((name) => name !== 'children' && next[name] !== had[name]);
    }

    render(props) {
      return h(View, props);
    }
  };
}
