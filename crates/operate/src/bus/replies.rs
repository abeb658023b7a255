//! Answers of items that were handed over come as messages of a queue.

use async_trait::async_trait;

use super::intake::{Taken, Taker, Wire};
use crate::answers::{Answer, AnswerView, Answers, Fate, MOST_ANSWERS, take};
use crate::{Asker, Floor, Role};

/// In whose name answers are taken.
const NAME: &str = "bus";

/// Takes the answers that come over a queue: one to a message, `{"token": …, "result": …}`.
pub struct Replies {
    floor: Floor,
    queue: String,
}

impl Replies {
    /// Those of one queue.
    #[must_use]
    pub fn of(floor: &Floor, queue: &str) -> Self {
        let asker = Asker { name: NAME.to_owned(), role: Role::Worker, payloads_hidden: true };
        Self { floor: Floor { asker, ..floor.clone() }, queue: queue.to_owned() }
    }

    async fn taken(&self, answers: Vec<Answer>) -> Vec<Taken> {
        let asked = answers.len();
        match take(&self.floor, Answers { answers }).await {
            Ok(taken) if taken.answers.len() == asked => taken.answers.into_iter().map(fate).collect(),
            Ok(_) => vec![Taken::Later("not every answer was told of".to_owned()); asked],
            Err(error) => vec![Taken::Later(error.to_string()); asked],
        }
    }
}

/// An answer that comes late, or twice, is done with: nothing is to be changed by it.
fn fate(view: AnswerView) -> Taken {
    match view.fate {
        Fate::Taken | Fate::Late => Taken::Done,
        Fate::Unknown | Fate::Wrong => Taken::Poison(view.message),
        Fate::Busy => Taken::Later(view.message),
    }
}

#[async_trait]
impl Taker for Replies {
    fn queue(&self) -> &str {
        &self.queue
    }

    async fn take(&self, messages: &[Wire]) -> Vec<Taken> {
        let mut taken: Vec<Taken> = Vec::with_capacity(messages.len());
        let (mut places, mut answers) = (Vec::new(), Vec::new());
        for (place, message) in messages.iter().enumerate() {
            match serde_json::from_slice::<Answer>(&message.body) {
                Err(error) => taken.push(Taken::Poison(format!("the message is no answer: {error}"))),
                Ok(answer) => {
                    taken.push(Taken::Later(String::new()));
                    places.push(place);
                    answers.push(answer);
                }
            }
        }
        let mut fates = Vec::with_capacity(answers.len());
        while !answers.is_empty() {
            let rest = answers.split_off(answers.len().min(MOST_ANSWERS));
            fates.extend(self.taken(answers).await);
            answers = rest;
        }
        for (place, fate) in places.into_iter().zip(fates) {
            taken[place] = fate;
        }
        taken
    }
}
