//! Messages that belong together.
//!
//! The way of Jamie Zawinski's algorithm, with two differences. It looks at all messages at once and in one order (date, then name), so that the
//! result does not depend on which came first. And a message's own word on what it answers comes before what others say of it, so that
//! nothing has to be undone and loops show at once.
//!
//! - A message is below the one that it answers last. Messages that are only named stand in as placeholders.
//! - Where that would make a loop, the link is left out.
//! - A message that says `Re:` and answers nothing that is known joins the earliest thread of the same subject; without one, the others like it.
//!   Messages that merely have the same subject stay apart.

use std::collections::{BTreeMap, HashMap};

/// What threading needs to know of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Link {
    /// Its name; each occurs once.
    pub key: String,
    /// The messages before it, the one that it answers last.
    pub references: Vec<String>,
    /// Its subject.
    pub subject: String,
    /// When it was sent, in UTC milliseconds.
    pub date_ms: Option<i64>,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// The name of its first message, which need not be there.
    pub root: String,
    /// Its messages, in the order in which they are read.
    pub messages: Vec<Member>,
}

/// A message of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its place in what was given.
    pub at: usize,
    /// How many messages of the thread are above it.
    pub depth: u32,
}

/// Puts messages together. The order of what is given does not matter, but for the numbers in the result.
#[must_use]
pub fn threads(links: &[Link]) -> Vec<Thread> {
    let mut forest = Forest::of(links);
    forest.link_answers();
    forest.link_chains();
    forest.join_subjects();
    forest.harvest()
}

type Node = usize;

struct Forest<'a> {
    links: &'a [Link],
    /// The messages by date and name.
    order: Vec<usize>,
    /// Every name, those of messages first, in the order of `links`.
    names: Vec<&'a str>,
    known: HashMap<&'a str, Node>,
    parents: Vec<Option<Node>>,
    /// Sets of nodes that are linked, as a forest of its own.
    sets: Vec<Node>,
}

impl<'a> Forest<'a> {
    fn of(links: &'a [Link]) -> Self {
        let mut names: Vec<&str> = Vec::with_capacity(links.len());
        let mut known = HashMap::with_capacity(links.len());
        for (node, link) in links.iter().enumerate() {
            names.push(&link.key);
            known.entry(link.key.as_str()).or_insert(node);
        }
        for name in links.iter().flat_map(|link| &link.references) {
            known.entry(name).or_insert_with(|| {
                names.push(name);
                names.len() - 1
            });
        }
        let mut order: Vec<usize> = (0..links.len()).collect();
        order.sort_by(|a, b| when(&links[*a]).cmp(&when(&links[*b])));
        let count = names.len();
        Self { links, order, names, known, parents: vec![None; count], sets: (0..count).collect() }
    }

    fn set_of(&mut self, node: Node) -> Node {
        let mut top = node;
        while self.sets[top] != top {
            top = self.sets[top];
        }
        let mut at = node;
        while self.sets[at] != top {
            at = std::mem::replace(&mut self.sets[at], top);
        }
        top
    }

    /// Puts `child` below `parent`, unless it is below another or that would make a loop.
    fn link(&mut self, child: Node, parent: Node) {
        if self.parents[child].is_some() {
            return;
        }
        let (below, above) = (self.set_of(child), self.set_of(parent));
        // A node without a parent is the root of its set: a parent from the same set is below it.
        if below != above {
            self.parents[child] = Some(parent);
            self.sets[below] = above;
        }
    }

    /// Every message goes below the one that it answers.
    fn link_answers(&mut self) {
        for at in self.order.clone() {
            if let Some(answered) = self.links[at].references.last() {
                self.link(at, self.known[answered.as_str()]);
            }
        }
    }

    /// What messages say of others counts where these say nothing, or are not there.
    fn link_chains(&mut self) {
        for at in self.order.clone() {
            let links = self.links;
            for pair in links[at].references.windows(2) {
                self.link(self.known[pair[1].as_str()], self.known[pair[0].as_str()]);
            }
        }
    }

    /// The earliest message of every set, in their order.
    fn firsts(&mut self) -> Vec<(Node, usize)> {
        let mut met = HashMap::new();
        for at in self.order.clone() {
            let set = self.set_of(at);
            met.entry(set).or_insert(at);
        }
        let mut firsts: Vec<(Node, usize)> = met.into_iter().collect();
        firsts.sort_by(|a, b| when(&self.links[a.1]).cmp(&when(&self.links[b.1])));
        firsts
    }

    fn join_subjects(&mut self) {
        let links = self.links;
        // By subject: the thread that others join, and whether it begins with a message that is no answer.
        let mut homes: HashMap<String, (Node, bool)> = HashMap::new();
        let mut orphans = Vec::new();
        for (_, first) in self.firsts() {
            let (base, is_answer) = base_subject(&links[first].subject);
            if base.is_empty() {
                continue;
            }
            let root = self.root_of(first);
            if is_answer {
                orphans.push((base.clone(), root));
            }
            match homes.get(&base) {
                Some((_, true)) => {}
                Some((_, false)) if is_answer => {}
                _ => {
                    homes.insert(base, (root, !is_answer));
                }
            }
        }
        for (base, root) in orphans {
            let home = homes[&base].0;
            if home != root {
                self.link(root, home);
            }
        }
    }

    fn root_of(&self, node: Node) -> Node {
        let mut at = node;
        while let Some(parent) = self.parents[at] {
            at = parent;
        }
        at
    }

    fn harvest(self) -> Vec<Thread> {
        let count = self.names.len();
        let mut children: Vec<Vec<Node>> = vec![Vec::new(); count];
        let mut roots = Vec::new();
        for node in 0..count {
            match self.parents[node] {
                Some(parent) => children[parent].push(node),
                None => roots.push(node),
            }
        }
        let is_message = |node: Node| node < self.links.len();
        let place = |node: Node| (is_message(node).then(|| when(&self.links[node])), self.names[node]);
        for list in &mut children {
            list.sort_by(|a, b| place(*a).cmp(&place(*b)));
        }
        let mut threads: BTreeMap<(i64, &str), Thread> = BTreeMap::new();
        for root in roots {
            let mut messages = Vec::new();
            let mut open = vec![(root, 0_u32)];
            while let Some((node, depth)) = open.pop() {
                if is_message(node) {
                    messages.push(Member { at: node, depth });
                }
                let below = depth + u32::from(is_message(node));
                open.extend(children[node].iter().rev().map(|child| (*child, below)));
            }
            let first = messages.iter().map(|member| when(&self.links[member.at]).0).min();
            if let Some(first) = first {
                let name = self.names[root];
                threads.insert((first, name), Thread { root: name.to_owned(), messages });
            }
        }
        threads.into_values().collect()
    }
}

/// The order of messages; those without a date come last.
fn when(link: &Link) -> (i64, &str) {
    (link.date_ms.unwrap_or(i64::MAX), &link.key)
}

/// A subject without what answering and lists put before it, in lower case; and whether it said that it is an answer.
#[must_use]
pub fn base_subject(subject: &str) -> (String, bool) {
    const ANSWERS: [&str; 8] = ["re", "aw", "sv", "antw", "vs", "odp", "res", "rép"];
    let mut rest = subject.trim();
    let mut is_answer = false;
    loop {
        if let Some((tag, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))
            && !after.trim().is_empty()
            && tag.len() <= 40
        {
            rest = after.trim_start();
            continue;
        }
        let Some((mark, after)) = rest.split_once(':') else { break };
        let word = mark
            .trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '[' | ']' | '(' | ')' | '^' | ' '));
        if !ANSWERS.contains(&word.to_lowercase().as_str()) {
            break;
        }
        is_answer = true;
        rest = after.trim_start();
    }
    (rest.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase(), is_answer)
}
